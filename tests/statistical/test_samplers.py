"""The samplers' output follows its law, and what is wrong is seen to fail."""

import numpy as np
import pytest

import quasir as qr
from tests.reference import exact
from tests.statistical.goodness import fits

SUPPORT = [f"x{i}" for i in range(12)]
Q = np.random.default_rng(3).dirichlet(np.ones(12))
P = np.where(np.arange(12) < 3, 0.0, 7 * np.random.default_rng(4).dirichlet(np.ones(12)))
TARGET = qr.Table(dict(zip(SUPPORT, P, strict=True)))
PROPOSAL = qr.Table(dict(zip(SUPPORT, Q, strict=True)))
TOP = float((P / Q).max())


def law(beta):
    return np.asarray(exact(Q, P, beta)["p_beta"], dtype=np.float64)


@pytest.mark.parametrize("beta", [TOP / 50, TOP / 5, TOP / 1.5, 2 * TOP])
def test_qrs_follows_p_beta(beta):
    samples = qr.QRS(TARGET, PROPOSAL, beta=beta).sample(20_000, seed=1)
    assert fits(samples.items, SUPPORT, law(beta))


def test_rs_follows_p():
    samples = qr.RS(TARGET, PROPOSAL, beta=TOP).sample(20_000, seed=2)
    assert fits(samples.items, SUPPORT, P)


@pytest.mark.parametrize("rate", [0.5, 0.1, 0.01])
def test_incremental_follows_p_beta_at_the_beta_it_returns(rate):
    samples = qr.IncrementalQRS(TARGET, PROPOSAL, acceptance_rate=rate).sample(5_000, seed=3)
    assert fits(samples.items, SUPPORT, law(samples.beta))
    assert samples.acceptance_rate >= rate


def test_incremental_follows_p_beta_over_many_short_runs():
    """n = 5 leaves much to chance in beta: its choice must not bend the law of the five."""
    sampler = qr.IncrementalQRS(TARGET, PROPOSAL, acceptance_rate=0.2)
    runs = [sampler.sample(5, seed=s) for s in range(3_000)]
    mean_law = np.mean([law(run.beta) for run in runs], axis=0)
    first = [run.items[0] for run in runs]
    last = [run.items[4] for run in runs]
    assert fits(first, SUPPORT, mean_law)
    assert fits(last, SUPPORT, mean_law)


def test_samples_are_independent():
    samples = qr.QRS(TARGET, PROPOSAL, beta=TOP / 5).sample(20_000, seed=5)
    pairs = [f"{a}{b}" for a, b in zip(samples.items[::2], samples.items[1::2], strict=True)]
    square = law(TOP / 5)
    both = np.outer(square, square).ravel()
    assert fits(pairs, [a + b for a in SUPPORT for b in SUPPORT], both)


def test_the_wrong_beta_fails():
    samples = qr.QRS(TARGET, PROPOSAL, beta=TOP / 5).sample(20_000, seed=1)
    assert not fits(samples.items, SUPPORT, law(TOP / 1.5))


def test_the_wrong_sign_fails():
    """A sampler that accepts when alpha < beta."""
    draws = qr.draw(TARGET, PROPOSAL, 40_000, seed=1)
    wrong = np.flatnonzero(draws.log_alpha < np.log(TOP / 5))
    assert not fits(draws.items.take(wrong), SUPPORT, law(TOP / 5))


def test_a_dropped_batch_fails():
    """A run that drops the batches of which an item was slow: here, those that hold x5."""
    draws = qr.draw(TARGET, PROPOSAL, 60_000, seed=1)
    batches = np.arange(60_000).reshape(-1, 10)
    kept = [batch for batch in batches if "x5" not in list(draws.items.take(batch))]
    draws = draws.take(np.concatenate(kept))
    accepted = draws.items.take(draws.accepted(TOP / 5))
    assert not fits(accepted, SUPPORT, law(TOP / 5))


def test_an_impossible_item_fails_at_once():
    assert not fits(["x0"] + ["x5"] * 1000, SUPPORT, law(TOP / 5))
