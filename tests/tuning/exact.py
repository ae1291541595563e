"""Targets on models whose every text can be listed: exact distributions and gradients."""

import numpy as np
import torch

import quasir as qr
from quasir.tuning.dpg import Loop
from quasir.tuning.rounds import Pool
from tests.text.tiny import gpt2, tokenizer

SMALL = {"steps": 60, "every": 10, "round_steps": 30, "batch": 32, "draws": 1000}


def dpg(target, base, **options):
    """Return a small and quiet run."""
    return qr.tuning.DPG(target, base, **(SMALL | {"progress": False} | options))


def loop_of(target, base, **options):
    """Return the loop of a run that is over, with all its draws."""
    loop = Loop(dpg(target, base, **({"round_steps": 20, "rate": 1e-2} | options)), None)
    loop.go()
    return loop


def model(words=("a", "b"), limit=4, seed=0, double=False, **changes):
    """Return a CausalLM on a tiny GPT-2, without dropout unless asked."""
    tok = tokenizer(words, bos="<e>", eos="<e>", pad="<e>")
    still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    network = gpt2(len(tok), seed=seed, **(still | changes))
    network = network.double() if double else network
    return qr.text.CausalLM(model=network, tokenizer=tok, max_tokens=limit)


def noise(scale, seed=0):
    """Return a feature that is noise, the same for the same text."""

    def value(text):
        digits = [ord(letter) for letter in text.text]
        return scale * float(np.random.default_rng([seed, *digits]).normal())

    return qr.Feature("noise", value)


def starts_with(word):
    return qr.Feature(f"starts with {word}", lambda text: text.text.startswith(word))


def normalised(target, texts):
    """Return p of every text."""
    p = np.exp(target.log_score(texts))
    return p / p.sum()


def exact_kl(p, lm, texts):
    """Return KL(p, pi), all texts summed."""
    inside = p > 0
    return float(p[inside] @ (np.log(p[inside]) - lm.log_prob(texts)[inside]))


def kl_tensor(p, log_pi):
    """Return KL(p, pi), all texts summed, as a tensor with a gradient."""
    inside = p > 0
    return (p[inside] * (p[inside].log() - log_pi[inside])).sum()


def flat_gradient(scalar, policy):
    """Return the gradient with respect to all weights that are tuned, as one vector."""
    parameters = list(policy.parameters.values())
    parts = torch.autograd.grad(scalar, parameters, allow_unused=True)
    return torch.cat(
        [
            (torch.zeros_like(p) if g is None else g).reshape(-1)
            for g, p in zip(parts, parameters, strict=True)
        ]
    )


def moved(policy, seed, scale=0.05):
    """Move the policy away from the base, so that pi is neither a nor p."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.parameters.values():
            step = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            parameter.add_(scale * step)
    return policy


def pool_of(texts, log_p, proposals, counts, tok):
    """Return a pool that holds every text as often as a mixture of proposals gives it.

    What a sum over it gives is the expectation over draws, with no draw made.
    """
    pool = Pool(tok)
    pool.items, pool.log_p = texts, log_p
    pool.log_q = np.log(np.array(proposals).T)
    pool.drawn = np.array([counts], dtype=float)
    shares = np.array(counts) / np.sum(counts)
    pool.stands_for = np.sum(counts) * (np.array(proposals).T @ shares)
    pool.rounds = np.zeros(len(texts), dtype=np.int64)
    return pool
