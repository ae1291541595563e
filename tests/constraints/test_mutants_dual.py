"""Lambda where it is known, at any scale of the weights, and the edge of what can be wanted."""

import math
import re

import numpy as np
import pytest

import quasir as qr
from quasir.constraints import dual
from quasir.constraints.dual import contradiction, must_be_enough, must_be_inside

ONES = np.array([[0.0], [0.0], [0.0], [1.0]])  # a feature that fires for one draw in four


def solve(phi, log_weight, mu):
    """Return lambda and the weights for one context."""
    found = dual.solve([(phi, log_weight)], mu)
    return found and (found[0], found[1][0])


def separating_direction(phi, mu):
    return dual.separating_direction([(phi, np.zeros(len(phi)))], mu)


def logit(p):
    return math.log(p / (1 - p))


def grid(*weights):
    """Return the four corners of two boolean features, and the logs of their weights."""
    corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    return corners, np.log(weights)


@pytest.mark.parametrize("constraint", [0.01, 0.25, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("shift", [-800.0, -300.0, 0.0, 300.0, 800.0])
def test_lambda_of_one_boolean_feature_is_a_difference_of_logits(constraint, shift):
    found = solve(ONES, np.full(4, shift), np.array([constraint]))
    assert found is not None
    coefficients, weight = found
    assert coefficients[0] == pytest.approx(logit(constraint) - logit(0.25), abs=1e-6)
    assert weight.sum() == pytest.approx(1, abs=1e-12)
    assert weight[3] == pytest.approx(constraint, abs=1e-8)


@pytest.mark.parametrize("shift", [-800.0, 800.0])
def test_the_scale_of_the_weights_changes_nothing(shift):
    rng = np.random.default_rng(0)
    phi = np.column_stack([rng.random(500) < 0.3, rng.normal(10, 4, 500)]).astype(float)
    log_weight = 3.0 * rng.normal(size=500)
    mu = np.array([0.6, 11.0])
    plain, scaled = solve(phi, log_weight, mu), solve(phi, log_weight + shift, mu)
    assert plain is not None
    assert scaled is not None
    for one, other in zip(plain, scaled, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("spread", [50.0, 600.0])
def test_weights_that_lie_far_apart_do_not_overflow(spread):
    """Two draws of weight 1, and a thousand of weight e^-spread that may be forgotten."""
    rng = np.random.default_rng(1)
    phi = np.concatenate([[[0.0], [1.0]], rng.random((1000, 1))])
    log_weight = np.concatenate([[0.0, 0.0], np.full(1000, -spread)])
    found = solve(phi, log_weight, np.array([0.8]))
    assert found is not None
    assert found[0][0] == pytest.approx(logit(0.8), abs=1e-6)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_lambda_times_a_feature_does_not_depend_on_its_unit(unit):
    rng = np.random.default_rng(2)
    phi = rng.normal(size=(2000, 1))
    coefficients, _ = solve(unit * phi, np.zeros(2000), np.array([0.5 * unit]))
    expected, _ = solve(phi, np.zeros(2000), np.array([0.5]))
    assert coefficients[0] * unit == pytest.approx(expected[0], rel=1e-5)


def test_two_features_that_are_independent_get_the_lambda_of_each_alone():
    corners, log_weight = grid(0.7 * 0.8, 0.7 * 0.2, 0.3 * 0.8, 0.3 * 0.2)
    coefficients, weight = solve(corners, log_weight, np.array([0.5, 0.6]))
    assert coefficients[0] == pytest.approx(logit(0.5) - logit(0.3), abs=1e-6)
    assert coefficients[1] == pytest.approx(logit(0.6) - logit(0.2), abs=1e-6)
    np.testing.assert_allclose(weight, [0.2, 0.3, 0.2, 0.3], atol=1e-8)


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


def test_a_moment_at_the_end_of_its_range_is_on_the_edge():
    assert solve(ONES, np.zeros(4), np.array([1.0])) is None
    assert solve(ONES, np.zeros(4), np.array([0.0])) is None


def test_a_hundred_effective_draws_are_enough_and_fewer_are_not():
    must_be_enough(100.0, 5000)
    with pytest.raises(qr.errors.InfeasibleError, match=r"worth only 50 .*About 5,000 more draws"):
        must_be_enough(50.0, 5000)


@pytest.mark.parametrize("unit", [1e-3, 1e2, 1e4])
def test_every_moment_is_met_in_units_of_its_own_feature(unit):
    rng = np.random.default_rng(3)
    phi = np.column_stack([rng.random(3000) < 0.2, unit * rng.standard_exponential(3000)])
    mu = np.array([0.5, 1.7 * unit])
    found = solve(phi.astype(float), rng.normal(size=3000), mu)
    assert found is not None
    np.testing.assert_allclose(found[1] @ phi, mu, rtol=0, atol=1e-8)


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
