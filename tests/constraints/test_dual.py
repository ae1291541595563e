"""Lambda where it is known; every mean inside the hull of the draws is met, and no other one."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quasir as qr
from quasir.constraints import dual
from quasir.constraints.dual import contradiction, must_be_enough, must_be_inside

RATES, MEANS = st.floats(0.002, 0.998), st.floats(0.02, 0.98)


def solve(phi, log_weight, mu):
    """Return lambda and the weights for one context."""
    found = dual.solve([(phi, log_weight)], mu)
    return found and (found[0], found[1][0])


def separating_direction(phi, mu):
    return dual.separating_direction([(phi, np.zeros(len(phi)))], mu)


def logit(p):
    return math.log(p / (1 - p))


@settings(max_examples=300, deadline=None)
@given(RATES, MEANS, st.sampled_from([-800.0, -300.0, 0.0, 300.0, 800.0]))
def test_lambda_of_one_boolean_feature_is_a_difference_of_logits(rate, mean, shift):
    weight = np.log([1 - rate, rate]) + shift
    (found,), tilted = solve(np.array([[0.0], [1.0]]), weight, np.array([mean]))
    assert found == pytest.approx(logit(mean) - logit(rate), rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(tilted, [1 - mean, mean], atol=1e-8)
    assert tilted.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("spread", [50.0, 600.0])
def test_weights_that_lie_far_apart_do_not_overflow(spread):
    """Two draws of weight 1, and a thousand of weight e^-spread that may be forgotten."""
    rng = np.random.default_rng(1)
    phi = np.concatenate([[[0.0], [1.0]], rng.random((1000, 1))])
    log_weight = np.concatenate([[0.0, 0.0], np.full(1000, -spread)])
    found = solve(phi, log_weight, np.array([0.8]))
    assert found is not None
    assert found[0][0] == pytest.approx(logit(0.8), abs=1e-6)


# Without the corner (0, 1), y fires only where x does: the mean of y is below that of x.
IMPLIED, LOG_WEIGHT = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]), np.log([0.5, 0.3, 0.2])


@pytest.mark.parametrize("inside", [1e-3, 1e-5])
def test_constraints_just_inside_the_edge_are_met(inside):
    mu = np.array([0.5, 0.5 - inside])
    coefficients, weight = solve(IMPLIED, LOG_WEIGHT, mu)
    # The weights of the three items are 1 - 0.5, inside, 0.5 - inside.
    np.testing.assert_allclose(weight, [0.5, inside, 0.5 - inside], atol=1e-8)
    assert coefficients[1] == pytest.approx(math.log((0.5 - inside) / inside * 0.3 / 0.2), abs=1e-2)
    assert separating_direction(IMPLIED, mu) is None


@pytest.mark.parametrize(("past", "where"), [(0.0, "on"), (1e-6, ""), (1e-3, ""), (0.2, "")])
@pytest.mark.parametrize("unit", [1.0, 1e3])
def test_constraints_on_the_edge_or_past_it_contradict_each_other(past, where, unit):
    phi, mu = IMPLIED * unit, np.array([0.5, 0.5 + past]) * unit
    assert solve(phi, LOG_WEIGHT, mu) is None
    direction = separating_direction(phi, mu)
    assert direction is not None
    assert np.abs(direction).max() == pytest.approx(1)
    # No draw is beyond the constraint in this direction, and some draw is short of it.
    assert (phi @ direction).max() <= mu @ direction + 1e-12 * unit
    assert (phi @ direction).min() < mu @ direction - 0.4 * unit
    text = str(contradiction(["x", "y"], phi, mu))
    assert re.search(
        r"contradict each other: in all of 3 draws that are possible -1 x \+ \S+ y", text
    )
    assert not where or f"which is {where} that edge" in text


def test_a_feature_that_does_not_matter_is_not_in_the_reason():
    phi = np.column_stack([np.repeat(IMPLIED, 2, axis=0), np.tile([0.0, 1.0], 3)])
    text = str(contradiction(["x", "y", "z"], phi, np.array([0.5, 0.5, 0.5])))
    assert re.search(r" -1 x \+ 1 y is at most -?0, but the constraint needs a mean of 0, ", text)


def test_moments_that_no_direction_separates_are_too_close_to_the_edge():
    text = str(contradiction(["x", "y"], IMPLIED, np.array([0.5, 0.2])))
    assert "no coefficients were found" in text


def test_a_hundred_effective_draws_are_enough_and_fewer_are_not():
    must_be_enough(100.0, 5000)
    with pytest.raises(qr.errors.InfeasibleError, match=r"worth only 50 .*About 5,000 more draws"):
        must_be_enough(50.0, 5000)


@pytest.mark.parametrize("short", [0.1, 1e-3, 1e-6])
def test_an_edge_is_found_where_one_draw_is_only_just_short_of_it(short):
    """Two draws are on the edge y = x; with the third, however close, no mean is on it."""
    phi = np.array([[0.0, 0.0], [1.0, 1.0], [0.5, 0.5 - short]])
    direction = separating_direction(phi, np.array([0.5, 0.5]))
    assert direction is not None
    np.testing.assert_allclose(direction, [-1, 1], atol=1e-9)
    # Without the third draw the constraint is met by equal weights.
    assert separating_direction(phi[:2], np.array([0.5, 0.5])) is None


@pytest.mark.parametrize(
    ("column", "constraint", "says"),
    [
        ([True, True], 0.0, "always fires"),
        ([True, True], 1.0, "always fires"),
        ([True, True], 0.5, "always fires"),
        ([False, False], 0.0, "never fires"),
        ([False, False], 1.0, "never fires"),
        ([True, False], 0.0, "outside what was seen"),
        ([True, False], 1.0, "outside what was seen"),
        ([True, False], -0.1, "between 0 and 1, not -0.1"),
        ([True, False], 1.1, "between 0 and 1, not 1.1"),
        ([3.0, 3.0], 3.0, "is 3 in all"),
        ([2.0, 5.0], 2.0, "between 2 and 5, and a mean must lie strictly inside"),
        ([2.0, 5.0], 5.0, "between 2 and 5, and a mean must lie strictly inside"),
        ([2.0, 5.0], 5.1, "between 2 and 5, and a mean must lie strictly inside"),
    ],
)
def test_a_moment_must_lie_inside_the_range_of_the_draws(column, constraint, says):
    feature, values = qr.Feature("f", lambda x: x), np.array(column)
    boolean = values.dtype == bool
    with pytest.raises(qr.errors.InfeasibleError) as error:
        must_be_inside(feature, constraint, values.astype(float), boolean, 9)
    assert says in str(error.value)
    assert "not" in says or "2 of 9 draws" in str(error.value)
    for inside in (1e-6, 0.5, 1 - 1e-6):
        must_be_inside(feature, inside, np.array([0.0, 1.0]), boolean, 9)


@pytest.mark.parametrize("constraint", [1.0, 0.0, 0.7])
@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_the_effective_number_of_draws(constraint, scale):
    """(sum w)^2 / sum w^2, with w = a(x)/q(x) e^(lambda phi(x)) where the constraint is met."""
    rng = np.random.default_rng(2)
    fires = rng.random(400) < 0.4
    log_base, log_q = np.log(scale * rng.random(400)), np.log(0.5 + rng.random(400))
    phi = qr.Feature("phi", lambda x: x == "a")
    draws = qr.Draws.from_arrays(
        log_base, log_q, items=np.where(fires, "a", "b"), log_base=log_base, features={"phi": fires}
    )
    target = qr.constrain(qr.Table({"a": 0.5, "b": 0.5}), {phi: constraint}, draws=draws)
    w = np.exp(log_base - log_q + target.coefficients.get("phi", 0.0) * fires)
    if constraint in (0.0, 1.0):
        w = w[fires == bool(constraint)]
    assert target.ess == pytest.approx(w.sum() ** 2 / (w**2).sum(), rel=1e-9)


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
    coefficients, weights = dual.solve(groups, mu)
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
    assert dual.solve(groups, mu) is None
    found = dual.separating_direction(groups, mu)
    assert found is not None
    most = np.mean([(phi @ found).max() for phi, _ in groups])
    assert most <= mu @ found + 1e-9
    inside = 0.5 * mu + 0.5 * np.mean([phi.mean(axis=0) for phi, _ in groups], axis=0)
    assert dual.separating_direction(groups, inside) is None
    assert dual.solve(groups, inside) is not None


def test_an_edge_of_rare_draws_is_an_edge():
    """x fires for 1 draw in 1,000 and y only with it: the means can be close, but not equal."""
    phi = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    log_weight = np.log([0.999, 0.0005, 0.0005])
    assert solve(phi, log_weight, np.array([0.5, 0.5])) is None
    assert solve(phi, log_weight, np.array([0.5, 0.499])) is not None


def test_a_feature_that_never_varies_has_no_lambda():
    assert solve(np.ones((5, 1)), np.zeros(5), np.array([1.0])) is None
