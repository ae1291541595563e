"""The gradient of KL(p, pi), summed over every text, is exact; minibatches estimate it."""

import numpy as np
import pytest
import torch

import quasir as qr
from quasir.tuning.policy import Policy
from quasir.tuning.rounds import Minibatches
from tests.text.tiny import every_text
from tests.tuning.exact import (
    flat_gradient,
    kl_tensor,
    model,
    moved,
    noise,
    normalised,
    pool_of,
    starts_with,
)


def setting(pointwise=False, lora=None):
    """Return a policy that is neither the base nor the target, and two other proposals."""
    base = model(limit=3, double=True)
    target = base * qr.tilt(noise(1.0), 1.0)
    if pointwise:
        target = target * starts_with("a")
    texts = every_text(base)
    p = normalised(target, texts)
    policy = moved(Policy(base, lora, seed=0), seed=1)
    with torch.no_grad():
        others = [moved(Policy(base, None, seed=0), seed) for seed in (2, 3)]
        proposals = [other.log_probs(texts).exp().numpy() for other in others]
    return policy, texts, p, proposals


def estimated(policy, texts, p, proposals, centred, batches_of=Minibatches):
    """Return the expectation of the gradient that a minibatch gives, over minibatch and draws."""
    with np.errstate(divide="ignore"):
        log_score = np.log(p) + 5.0  # Z is not 1
    pool = pool_of(texts, log_score, proposals, [300, 100], policy.base.tokenizer)
    batches = batches_of(pool, 1, 5.0, centred)
    log_pi = policy.log_probs(texts)
    inside = np.flatnonzero(batches.probability)
    counts = np.zeros(len(texts))
    counts[inside] = batches.probability[inside] * batches.coefficients(
        inside, log_pi.detach().numpy()[inside]
    )
    return flat_gradient(-(torch.from_numpy(counts) * log_pi).sum(), policy)


def exact(policy, texts, p):
    return flat_gradient(kl_tensor(torch.from_numpy(p), policy.log_probs(texts)), policy)


def distance(a, b):
    return float((a - b).norm() / b.norm())


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize(("pointwise", "lora"), [(False, None), (True, None), (False, 2)])
def test_the_estimate_is_the_gradient_of_the_divergence(centred, pointwise, lora):
    policy, texts, p, proposals = setting(pointwise, lora)
    ours = estimated(policy, texts, p, proposals, centred)
    assert distance(ours, exact(policy, texts, p)) < 1e-5


def test_finite_differences_agree():
    """Along a direction at random, so that autograd is not its own witness."""
    policy, texts, p, proposals = setting()
    ours = estimated(policy, texts, p, proposals, False)
    direction = torch.randn(len(ours), generator=torch.Generator().manual_seed(4)).double()
    h, values = 1e-5, []
    start = policy.weights
    for sign in (1, -1):
        policy.load(start)
        with torch.no_grad():
            done = 0
            for parameter in policy.parameters.values():
                step = direction[done : done + parameter.numel()].view_as(parameter)
                parameter.add_(sign * h * step)
                done += parameter.numel()
            values.append(float(kl_tensor(torch.from_numpy(p), policy.log_probs(texts))))
    slope = (values[0] - values[1]) / (2 * h)
    assert float(ours @ direction) == pytest.approx(slope, rel=1e-5)


class WithoutTheProposal(Minibatches):
    def coefficients(self, index, log_pi):
        return super().coefficients(index, log_pi) * np.exp(self.log_m[index])


class WithoutTheProbability(Minibatches):
    def coefficients(self, index, log_pi):
        return super().coefficients(index, log_pi) * self.probability[index]


@pytest.mark.parametrize("wrong", [WithoutTheProposal, WithoutTheProbability])
@pytest.mark.parametrize("centred", [False, True])
def test_a_wrong_weight_is_caught(wrong, centred):
    """Dropping 1/m, or the 1/s of a minibatch, is far from the gradient."""
    policy, texts, p, proposals = setting()
    ours = estimated(policy, texts, p, proposals, centred, batches_of=wrong)
    right = exact(policy, texts, p)
    assert distance(ours * right.norm() / ours.norm(), right) > 0.05


def test_centred_weights_vanish_where_pi_is_p_and_plain_ones_where_p_is_0():
    policy, texts, p, proposals = setting(pointwise=True)
    with np.errstate(divide="ignore"):
        log_p = np.log(p)
    pool = pool_of(texts, log_p, proposals, [1, 1], policy.base.tokenizer)
    centred = Minibatches(pool, 0, 0.0, True).coefficients(np.arange(len(p)), log_p)
    np.testing.assert_allclose(centred, 0, atol=1e-15)
    plain = Minibatches(pool, 0, 0.0, False)
    assert (plain.probability[p == 0] == 0).all()
    inside = np.flatnonzero(p)
    np.testing.assert_allclose(plain.coefficients(inside, log_p[inside]), 1)


def test_minibatches_are_drawn_by_their_probability():
    policy, texts, p, proposals = setting(pointwise=True)
    with np.errstate(divide="ignore"):
        pool = pool_of(texts, np.log(p), proposals, [1, 1], policy.base.tokenizer)
    batches = Minibatches(pool, 0, 0.0, False)
    rng = np.random.default_rng(0)
    taken = np.bincount(
        np.concatenate([batches.take(7, rng) for _ in range(3000)]), minlength=len(texts)
    )
    np.testing.assert_allclose(taken / taken.sum(), batches.probability, atol=0.01)
    assert taken[p == 0].sum() == 0


def test_log_probs_are_those_of_the_proposal():
    """The tensor that gradients flow from, and the scores that draws are recorded with."""
    base = model(limit=3)
    texts = every_text(base)
    policy = moved(Policy(base, None, seed=0), seed=1)
    with torch.no_grad():
        ours = policy.log_probs(texts).numpy()
    np.testing.assert_allclose(ours, policy.lm.log_prob(texts), atol=1e-5)
    np.testing.assert_allclose(policy.frozen(policy.weights).log_prob(texts), ours, atol=1e-5)
    assert np.exp(ours).sum() == pytest.approx(1, abs=1e-5)
