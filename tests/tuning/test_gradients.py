"""The gradient of each loss, summed over every text, is that of the exact divergence."""

import numpy as np
import pytest
import torch

import quasir as qr
from quasir.tuning.losses import LOSSES, Loss, Minibatches, loss_named
from tests.tuning.exact import (
    Policy,
    divergence,
    every_text,
    flat_gradient,
    model,
    moved,
    noise,
    normalised,
    pool_of,
    starts_with,
)

CASES = [
    (name, centred, pointwise)
    for name in LOSSES
    for centred in (False, True)
    for pointwise in (False, True)
    if not (name == "reverse_kl" and pointwise)
]


def setting(pointwise, lora=None):
    """Return a policy that is neither the base nor the target, and a mixture of two others."""
    base = model(limit=3, double=True)
    target = base * qr.tilt(noise(1.0), 1.0)
    if pointwise:
        target = target * starts_with("a")
    texts = every_text(base)
    p = normalised(target, texts)
    policy = moved(Policy(base, lora, seed=0), seed=1)
    laws = []
    for seed in (2, 3):
        with torch.no_grad():
            laws.append(moved(Policy(base, None, seed=0), seed).log_probs(texts).exp().numpy())
    return policy, texts, p, laws


def estimated(policy, texts, p, laws, loss, centred, clip=None):
    """Return the expectation of the gradient that a minibatch gives, over minibatch and draws."""
    with np.errstate(divide="ignore"):
        log_score = np.log(p) + 5.0  # Z is not 1
    pool = pool_of(texts, log_score, laws, [300, 100], policy.base.tokenizer)
    batches = Minibatches(pool, loss, 1, 5.0, centred, clip)
    log_pi = policy.log_probs(texts)
    inside = np.flatnonzero(batches.chance)
    counts = np.zeros(len(texts))
    counts[inside] = batches.chance[inside] * batches.coefficients(
        inside, log_pi.detach().numpy()[inside]
    )
    return flat_gradient(-(torch.from_numpy(counts) * log_pi).sum(), policy)


def exact(policy, texts, p, name):
    return flat_gradient(divergence(name, torch.from_numpy(p), policy.log_probs(texts)), policy)


def distance(a, b):
    return float((a - b).norm() / b.norm())


@pytest.mark.parametrize(("name", "centred", "pointwise"), CASES)
def test_the_estimate_is_the_gradient_of_the_divergence(name, centred, pointwise):
    policy, texts, p, laws = setting(pointwise)
    ours = estimated(policy, texts, p, laws, loss_named(name), centred)
    assert distance(ours, exact(policy, texts, p, name)) < 1e-5


@pytest.mark.parametrize("name", LOSSES)
def test_the_same_for_an_adapter(name):
    policy, texts, p, laws = setting(False, lora=2)
    ours = estimated(policy, texts, p, laws, loss_named(name), False)
    assert distance(ours, exact(policy, texts, p, name)) < 1e-5


@pytest.mark.parametrize("name", LOSSES)
def test_finite_differences_agree(name):
    """Along a direction at random, so that autograd is not its own witness."""
    policy, texts, p, laws = setting(False)
    ours = estimated(policy, texts, p, laws, loss_named(name), False)
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
            values.append(float(divergence(name, torch.from_numpy(p), policy.log_probs(texts))))
    slope = (values[0] - values[1]) / (2 * h)
    assert float(ours @ direction) == pytest.approx(slope, rel=1e-5)


def without_the_proposal(log_p, log_pi, log_m):
    return np.exp(log_p)


def without_pi(log_p, log_pi, log_m):
    """TV's sign without the pi/m that it needs off-policy."""
    return (log_p > log_pi).astype(float)


WRONG = {
    "kl": Loss("kl", without_the_proposal, without_the_proposal, needs_pi=False),
    "tv": Loss("tv", without_pi, without_pi, needs_pi=True),
    "js": Loss("js", LOSSES["tv"].plain, LOSSES["tv"].plain, needs_pi=True),
    "reverse_kl": Loss("reverse_kl", LOSSES["js"].plain, LOSSES["js"].plain, needs_pi=True),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_weight_is_caught(name):
    """Dropping 1/q, or taking one divergence's weight for another's, is far from the gradient."""
    policy, texts, p, laws = setting(False)
    ours = estimated(policy, texts, p, laws, WRONG[name], False)
    assert distance(ours, exact(policy, texts, p, name)) > 0.05


def test_centred_weights_vanish_where_pi_is_p():
    log_p = np.log([0.2, 0.3, 0.5])
    for loss in LOSSES.values():
        np.testing.assert_allclose(loss.weight(log_p, log_p, np.zeros(3), centred=True), 0)


def test_plain_weights_of_the_impossible_are_0():
    impossible = np.array([-np.inf])
    for name in ("kl", "tv", "js"):
        assert LOSSES[name].weight(impossible, np.array([-1.0]), np.array([-2.0])) == 0


def test_clipping_is_the_gradient_of_a_clipped_target():
    policy, texts, p, laws = setting(False)
    mixture = 0.75 * laws[0] + 0.25 * laws[1]
    ours = estimated(policy, texts, p, laws, loss_named("kl"), False, clip=1.2)
    clipped = np.minimum(p, 1.2 * mixture)
    assert clipped.sum() < 0.99
    exact = flat_gradient(-(torch.from_numpy(clipped) * policy.log_probs(texts)).sum(), policy)
    assert distance(ours, exact) < 1e-5


def test_clipping_is_recorded():
    policy, texts, p, laws = setting(False)
    mixture = 0.75 * laws[0] + 0.25 * laws[1]
    pool = pool_of(texts, np.log(p), laws, [300, 100], policy.base.tokenizer)
    batches = Minibatches(pool, loss_named("kl"), 0, 0.0, False, 1.2)
    assert batches.clipped == pytest.approx(1 - np.minimum(p, 1.2 * mixture).sum())


def test_minibatches_are_drawn_by_their_chance():
    policy, texts, p, laws = setting(True)
    pool = pool_of(texts, np.log(np.maximum(p, 1e-300)), laws, [1, 1], policy.base.tokenizer)
    pool.log_p[p == 0] = -np.inf
    batches = Minibatches(pool, loss_named("kl"), 0, 0.0, False)
    rng = np.random.default_rng(0)
    taken = np.bincount(
        np.concatenate([batches.take(7, rng) for _ in range(3000)]), minlength=len(texts)
    )
    np.testing.assert_allclose(taken / taken.sum(), batches.chance, atol=0.01)
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


def test_a_loss_that_does_not_exist():
    with pytest.raises(qr.errors.InputError, match="one of kl, reverse_kl, tv, js"):
        loss_named("hinge")
