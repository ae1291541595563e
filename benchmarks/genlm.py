"""genlm-control beside quasir: the law of samples of a regular expression, and their time.

    python -m benchmarks.genlm --runs 1000

The model is small enough to list every token sequence of the language, so the exact law p is known.
genlm-control (Apache-2.0, `pip install genlm-control`) runs sequential Monte Carlo with its
AWRS token sampler; a sample is one particle, chosen by its weight, of one run. For each method the
table has the TVD between p and the law of its samples, and the TVD that as many i.i.d. draws of p
show by chance alone. Where genlm-control is not installed, only quasir's rows are printed.
"""

import argparse
import asyncio
import itertools
import re
import time
from collections import Counter

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import quasir as qr

PATTERN = r"(a|ab){2} ?b{0,2}|b b"
PIECES = {b"a": "a", b"b": "b", b"ab": "ab", b" a": "Ġa", b" ": "Ġ"}
"""Tokens that spell the pattern's texts, by their bytes, as byte-level tokenizers write them."""
LIMIT = 10
"""Tokens, with the end token; the longest text of the pattern has 7 letters."""
PARTICLES = (1, 5, 10, 50)


def small_model(seed, end="</s>"):
    """Return a random model with a byte-level tokenizer that has all 256 bytes."""
    tokens = [end, *sorted(pre_tokenizers.ByteLevel.alphabet()), "ab", "Ġa"]
    inner = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, [("a", "b"), ("Ġ", "a")]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([end])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token=end, eos_token=end)
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=32,
        n_embd=32,
        n_layer=2,
        n_head=2,
        initializer_range=0.5,
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    network = GPT2LMHeadModel(config).eval()
    wanted = [0, *tokenizer.convert_tokens_to_ids(list(PIECES.values()))]
    with torch.no_grad():
        head, norm = network.lm_head.weight, network.transformer.ln_f
        head.normal_(std=0.3)
        # The first feature is 1 in every state: it lowers the logits of all other bytes by 8.
        norm.weight[0], norm.bias[0] = 0.0, 1.0
        head[:, 0] = -8.0
        head[wanted, 0] = 0.0
    return qr.text.CausalLM(model=network, tokenizer=tokenizer, max_tokens=LIMIT)


def listed(lm, strings):
    """Return every token sequence that spells one of these strings."""
    token_of = {piece: lm.tokenizer.convert_tokens_to_ids(t) for piece, t in PIECES.items()}

    def spelled(left):
        if not left:
            return [()]
        found = []
        for piece, token in token_of.items():
            if left.startswith(piece):
                found += [(token, *rest) for rest in spelled(left[len(piece) :])]
        return found

    return [ids for string in strings for ids in spelled(string)]


def language():
    """Return the strings of the pattern, by trying all short strings."""
    every = ("".join(s) for n in range(9) for s in itertools.product("ab ", repeat=n))
    return [s.encode() for s in every if re.fullmatch(PATTERN, s)]


def texts_of(lm, ids):
    return qr.text.Texts.of(ids, lm.tokenizer)


def exact(lm):
    """Return the token sequences of the language, and the exact law p on them."""
    ids = listed(lm, language())
    a = np.exp(lm.log_prob(texts_of(lm, ids)))
    return ids, a / a.sum(), float(a.sum())


def by_chance(p, n, rng, times=400):
    """Return the mean and sd of the TVD between p and n i.i.d. draws of it."""
    counts = rng.multinomial(n, p, size=times) / n
    off = 0.5 * np.abs(counts - p).sum(axis=1)
    return off.mean(), off.std()


def distance(drawn, ids, p):
    """Return the TVD between p and the frequencies of drawn sequences."""
    counts = Counter(drawn)
    inside = np.array([counts[i] for i in ids]) / len(drawn)
    outside = 1 - inside.sum()
    return 0.5 * (np.abs(inside - p).sum() + outside)


def ours(lm, runs, seed):
    """Yield each method of quasir, its samples, its CPU seconds, and a remark."""
    guide = qr.guides.regex(PATTERN)
    target, q = lm * guide.feature, lm.guided(guide)
    start = time.process_time()
    items = q.sample(runs, np.random.default_rng(seed)).items
    yield "quasir: masked, as it is", items, time.process_time() - start, "JSON mode"
    yield "quasir: masked, exact by QRS", *at_ceiling(target, q, runs, seed)
    start = time.process_time()
    for number in range(3):
        q = q.learn(q.sample(200, np.random.default_rng([seed, number])).items)
    learnt = time.process_time() - start
    items, seconds, remark = at_ceiling(target, q, runs, seed)
    remark += f"; learning took {learnt:.2f} s more"
    yield "quasir: trie of 600 draws, exact by QRS", items, seconds, remark


def at_ceiling(target, q, runs, seed):
    """Return exact samples, their CPU seconds, and their acceptance rate in words."""
    start = time.process_time()
    log_most = q.log_most_base_ratio(target.base, target)
    samples = qr.QRS(target, q, log_beta=log_most).sample(runs, seed=seed)
    seconds = time.process_time() - start
    return samples.items, seconds, f"accepts {samples.acceptance_rate:.3f}"


async def theirs(lm, particles, runs, seed):
    """Return one sample of each run of SMC with AWRS, and the CPU seconds of all runs."""
    from genlm.backend.llm import AsyncTransformer
    from genlm.control import AWRS, BoolFSA, PromptedLLM

    potential = PromptedLLM(AsyncTransformer(lm.model, lm.tokenizer), prompt_ids=lm.prefix)
    condition = BoolFSA.from_regex(PATTERN).coerce(potential, f=b"".join)
    sampler = AWRS(potential, condition, seed=seed)
    rng, chosen = np.random.default_rng(seed), []
    start = time.process_time()
    for _ in range(runs):
        found = await sampler.smc(n_particles=particles, ess_threshold=0.5, max_tokens=LIMIT)
        weights = found.normalized_weights
        pick = found.contexts[rng.choice(len(weights), p=weights / weights.sum())]
        chosen.append(tuple(token.token_id for token in pick[:-1]))
    return chosen, time.process_time() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000, help="samples of each method")
    parser.add_argument("--model-seed", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    n, rng = arguments.runs, np.random.default_rng(arguments.seed)
    lm = small_model(arguments.model_seed)
    ids, p, z = exact(lm)
    mean, sd = by_chance(p, n, rng)
    mass = np.exp(lm.guided(qr.guides.regex(PATTERN)).log_prob(texts_of(lm, ids))).sum()
    print(f"{len(ids)} token sequences, Z = {z:.4g}, {mass:.6f} of the mass of masked decoding")
    print(f"{n} samples of each method")
    print(f"TVD of as many i.i.d. draws of p, by chance: {mean:.3f} ± {sd:.3f}\n")
    print(f"{'method':<42} {'TVD':>6} {'in sd':>7} {'ms a sample':>12}", flush=True)

    def row(name, drawn, seconds, remark):
        tvd = distance(drawn, ids, p)
        print(
            f"{name:<42} {tvd:>6.3f} {(tvd - mean) / sd:>7.1f} {1e3 * seconds / n:>12.3f}", end=""
        )
        print(f"   {remark}", flush=True)

    for name, items, seconds, remark in ours(lm, n, arguments.seed):
        row(name, [tuple(item.token_ids) for item in items], seconds, remark)
    try:
        import genlm.control  # noqa: F401
    except ImportError as error:
        print(f"genlm-control: not run, {error}; pip install genlm-control")
        return
    for particles in PARTICLES:
        drawn, seconds = asyncio.run(theirs(lm, particles, n, arguments.seed))
        row(f"genlm-control: AWRS, SMC of {particles}", drawn, seconds, "")


if __name__ == "__main__":
    main()
