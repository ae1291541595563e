"""Every mean inside the hull of the draws is met, and every mean outside it is refused."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quasir as qr
from quasir.constraints.dual import separating_direction, solve

RATES, MEANS = st.floats(0.002, 0.998), st.floats(0.02, 0.98)


@pytest.mark.parametrize("seed", range(10))
def test_a_rare_word_can_be_made_common(seed):
    """The first Newton step overshoots: this was refused for each of these seeds."""
    base = qr.Table({"he": 0.99, "she": 0.01})
    target = qr.constrain(
        base, {qr.Feature("she", lambda x: x == "she"): 0.95}, n=100_000, seed=seed
    )
    assert target.coefficients["she"] == pytest.approx(math.log(0.95 / 0.05 * 99), abs=0.15)
    assert 1000 < target.ess < 1300
    assert target.achieved["she"].value == pytest.approx(0.95, abs=1e-8)


@settings(max_examples=300, deadline=None)
@given(RATES, MEANS)
def test_one_boolean_feature(rate, mean):
    weight = np.log([1 - rate, rate])
    (found,), (tilted,) = solve([(np.array([[0.0], [1.0]]), weight)], np.array([mean]))
    exact = math.log(mean / (1 - mean)) - math.log(rate / (1 - rate))
    assert found == pytest.approx(exact, rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(tilted, [1 - mean, mean], atol=1e-8)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(RATES, MEANS), min_size=2, max_size=5), st.integers(0, 2**32))
def test_several_boolean_features_at_once(pairs, seed):
    """All combinations are present, and not independent: every mean between 0 and 1 is met."""
    rates, mu = np.array(pairs).T
    corners = np.array(np.meshgrid(*[[0.0, 1.0]] * len(mu))).reshape(len(mu), -1).T
    log_weight = (corners * np.log(rates) + (1 - corners) * np.log1p(-rates)).sum(axis=1)
    log_weight += np.random.default_rng(seed).normal(size=len(corners))
    _, (weight,) = solve([(corners, log_weight)], mu)
    np.testing.assert_allclose(weight @ corners, mu, atol=1e-8)


def columns(rng, n, k):
    """Return real and boolean features in units from 1e-3 to 1e9, some of them skewed."""
    kinds = [
        lambda: rng.random(n) < rng.uniform(0.002, 0.998),
        lambda: rng.normal(rng.uniform(-3, 3), 1, n) * 10 ** rng.uniform(-3, 9),
        lambda: rng.standard_exponential(n) * 10 ** rng.uniform(-3, 9),
        lambda: rng.pareto(1.5, n),
        lambda: rng.zipf(2.5, n),
    ]
    return np.column_stack([kinds[rng.integers(5)]() for _ in range(k)]).astype(float)


@pytest.mark.parametrize("contexts", [1, 3])
@pytest.mark.parametrize("seed", range(150))
def test_features_of_any_kind_in_any_unit(seed, contexts):
    """The constraint is the mean of other positive weights, so it can be met."""
    rng = np.random.default_rng([seed, contexts])
    k, n = rng.integers(1, 5), int(10 ** rng.uniform(1.5, 3.5))
    spread = rng.choice([0, 1, 3])
    groups = [(columns(rng, n, 4), spread * rng.normal(size=n)) for _ in range(contexts)]
    groups = [(phi[:, :k], log_weight) for phi, log_weight in groups]
    other = [rng.dirichlet(np.full(n, 10 ** rng.uniform(-1.5, 0))) for _ in groups]
    other = [0.99 * w + 0.01 / n for w in other]
    mu = np.mean([w @ phi for w, (phi, _) in zip(other, groups, strict=True)], axis=0)
    every = np.concatenate([phi for phi, _ in groups])
    if (np.ptp(every, axis=0) == 0).any():
        return  # a rare feature that never fired
    coefficients, weights = solve(groups, mu)
    for (phi, log_weight), weight in zip(groups, weights, strict=True):
        tilted = log_weight + (phi - mu) @ coefficients
        tilted = np.exp(tilted - tilted.max())
        np.testing.assert_allclose(weight, tilted / tilted.sum(), rtol=1e-6, atol=1e-12)
    met = np.mean([w @ phi for w, (phi, _) in zip(weights, groups, strict=True)], axis=0)
    error = np.maximum(1e-8, 1e-10 * np.abs(every - mu).max(axis=0))
    assert (np.abs(met - mu) <= error).all()


@pytest.mark.parametrize("contexts", [1, 3])
@pytest.mark.parametrize("past", [0.0, 1e-4, 0.3])
@pytest.mark.parametrize("seed", range(20))
def test_a_mean_on_the_edge_or_past_it_is_refused(seed, past, contexts):
    """The constraint is at or past the largest mean of d . phi that any weights give."""
    rng = np.random.default_rng([seed, contexts])
    groups = [(rng.normal(size=(200, 2)), rng.normal(size=200)) for _ in range(contexts)]
    d = rng.normal(size=2)
    d /= np.abs(d).max()
    corner = np.mean([phi[np.argmax(phi @ d)] for phi, _ in groups], axis=0)
    mu = corner + past * d / (d @ d)
    assert solve(groups, mu) is None
    found = separating_direction(groups, mu)
    assert found is not None
    most = np.mean([(phi @ found).max() for phi, _ in groups])
    assert most <= mu @ found + 1e-9
    inside = 0.5 * mu + 0.5 * np.mean([phi.mean(axis=0) for phi, _ in groups], axis=0)
    assert separating_direction(groups, inside) is None
    assert solve(groups, inside) is not None


def test_an_edge_of_rare_draws_is_an_edge():
    """x fires for 1 draw in 1,000 and y only with it: the means can be close, but not equal."""
    phi = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    log_weight = np.log([0.999, 0.0005, 0.0005])
    assert solve([(phi, log_weight)], np.array([0.5, 0.5])) is None
    assert solve([(phi, log_weight)], np.array([0.5, 0.499])) is not None


def test_a_feature_that_never_varies_has_no_lambda():
    assert solve([(np.ones((5, 1)), np.zeros(5))], np.array([1.0])) is None
