"""Constraints on bases small enough to enumerate."""

import numpy as np
import pytest
from scipy import optimize

import quasir as qr
from tests.constraints.random_constraints import (
    BASE,
    COUNTS,
    FLAGS,
    LEVEL,
    SIZE,
    SIZE_OF,
    A,
    X,
    Y,
    whole,
)


def law(target):
    weights = np.exp(target.log_score(np.arange(SIZE)))
    return weights / weights.sum()


def test_a_mixed_constraint_is_met_exactly():
    draws = qr.Draws.concatenate([whole()] * 3)
    target = qr.constrain(BASE, {X: 1.0, Y: 0.7, SIZE_OF: 11.0}, draws=draws)
    p = law(target)
    assert (p[~FLAGS["x"]] == 0).all()
    assert p @ FLAGS["y"] == pytest.approx(0.7, abs=1e-8)
    assert p @ LEVEL == pytest.approx(11.0, abs=1e-8)
    assert target.achieved["x"].value == 1
    assert target.achieved["x"].se == 0
    assert target.achieved["y"].value == pytest.approx(0.7, abs=1e-8)
    assert set(target.coefficients) == {"y", "level"}


def test_pointwise_at_zero():
    target = qr.constrain(BASE, {X: 0.0, Y: 0.5}, draws=qr.Draws.concatenate([whole()] * 3))
    p = law(target)
    assert p @ FLAGS["x"] == 0
    assert p @ FLAGS["y"] == pytest.approx(0.5, abs=1e-8)
    fresh = target.check(20_000, seed=1)
    assert fresh["x"].value == 0
    assert fresh["y"].low <= 0.5 <= fresh["y"].high


def test_kl_to_the_base_is_the_least_there_is():
    """Against scipy's solver over all distributions on the 50 items with these moments."""
    target = qr.constrain(
        BASE, {Y: 0.7, SIZE_OF: 11.5}, draws=whole().take(np.tile(np.arange(COUNTS.sum()), 3))
    )
    p = law(target)
    ours = float(p @ np.log(p / A))
    limits = [
        {"type": "eq", "fun": lambda r: r.sum() - 1},
        {"type": "eq", "fun": lambda r: r @ FLAGS["y"] - 0.7},
        {"type": "eq", "fun": lambda r: r @ LEVEL - 11.5},
    ]
    solved = optimize.minimize(
        lambda r: float(r @ np.log(r / A)),
        A,
        jac=lambda r: np.log(r / A) + 1,
        bounds=[(1e-12, 1)] * SIZE,
        constraints=limits,
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    assert solved.success
    assert ours == pytest.approx(solved.fun, abs=1e-7)
    other = 0.5 * p + 0.5 * A  # another law, with other moments, must not be mistaken for it
    assert abs(other @ FLAGS["y"] - 0.7) > 1e-3


def test_draws_from_a_proposal_are_weighted():
    flat = qr.Table(dict.fromkeys(range(SIZE), 1 / SIZE))
    target = qr.constrain(BASE, {Y: 0.7}, n=100_000, seed=0, proposal=flat)
    from_base = qr.constrain(BASE, {Y: 0.7}, n=100_000, seed=1)
    for t in (target, from_base):
        part = t.achieved["y"]
        assert 0 < part.se < 0.01
        assert law(t) @ FLAGS["y"] == pytest.approx(0.7, abs=4 * part.se)


def test_the_standard_error_covers_the_true_moment():
    inside = 0
    for seed in range(300):
        part = (target := qr.constrain(BASE, {Y: 0.7}, n=2000, seed=seed)).achieved["y"]
        inside += part.low <= law(target) @ FLAGS["y"] <= part.high
    assert 0.92 <= inside / 300 <= 0.98


def test_mixed_constraints_stay_exact_in_the_samples():
    """The public toolkit puts pointwise features in the exponential, and gets 98.1 %."""
    target = qr.constrain(BASE, {X: 1.0, Y: 0.5}, n=50_000, seed=0)
    samples = qr.IncrementalQRS(target, BASE, acceptance_rate=0.05).sample(5000, seed=1)
    assert samples.features["x"].all()
    assert samples.features["y"].mean() == pytest.approx(0.5, abs=0.04)
