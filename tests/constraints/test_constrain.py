"""Constraints that cannot be met or understood, and what is said of them."""

import math

import numpy as np
import pytest

import quasir as qr
from tests.constraints.random_constraints import BASE, FLAGS, SIZE, SIZE_OF, X, Y, column, whole


def test_the_constraint_is_told():
    target = qr.constrain(BASE, {X: 1.0, Y: 0.7}, n=20_000, seed=0)
    text = str(target)
    assert "pointwise" in text
    assert max(len(line) for line in text.splitlines()) <= 80
    assert f"{target.coefficients['y']:.4f}" in text


NEVER = column("never", np.zeros(SIZE, dtype=bool))
ALWAYS = column("always", np.ones(SIZE, dtype=bool))
SUB = column("sub", FLAGS["x"] & FLAGS["y"])
NOT_X = column("not x", ~FLAGS["x"])
FLAT = column("flat", np.full(SIZE, 3.0))


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ({NEVER: 1.0}, "'never' fired for none of 20,000 draws"),
        ({ALWAYS: 0.0}, "'always' fired for all of 20,000 draws"),
        ({NEVER: 0.5}, "'never' never fires"),
        ({ALWAYS: 0.5}, "'always' always fires"),
        ({Y: 1.5}, "between 0 and 1, not 1.5"),
        ({SIZE_OF: 100.0}, "outside what was seen"),
        ({FLAT: 2.0}, "is 3 in all"),
        ({X: 1.0, NOT_X: 1.0}, "hold together for none"),
        ({X: 1.0, NOT_X: 0.5}, "'not x' never fires in the"),
        ({X: 0.3, NOT_X: 0.5}, "contradict each other"),
        ({X: 0.4, SUB: 0.6}, "contradict each other"),
        ({X: 0.5, SUB: 0.5}, "on that edge"),
    ],
)
def test_infeasible_constraints(constraints, message):
    with pytest.raises(qr.errors.InfeasibleError) as error:
        qr.constrain(BASE, constraints, n=20_000, seed=0)
    assert message in str(error.value)


def test_a_contradiction_is_explained():
    with pytest.raises(qr.errors.InfeasibleError) as error:
        qr.constrain(BASE, {X: 0.4, SUB: 0.6}, n=20_000, seed=0)
    assert "sub" in str(error.value)
    assert "the constraint needs a mean of 0.2, which is past that edge" in str(error.value)


def test_too_few_draws_to_trust_lambda():
    with pytest.raises(qr.errors.InfeasibleError, match=r"About [\d,]+ more draws are needed"):
        qr.constrain(BASE, {X: 1.0, Y: 0.7}, n=200, seed=0)
    # A pointwise constraint alone has nothing to fit.
    assert qr.constrain(BASE, {X: 1.0}, n=50, seed=0).coefficients == {}


@pytest.mark.parametrize(
    "call",
    [
        lambda: qr.constrain(BASE, {}),
        lambda: qr.constrain(BASE, {"x": 1.0}),
        lambda: qr.constrain(BASE, {X: math.nan}),
        lambda: qr.constrain(BASE, {X: "half"}),
        lambda: qr.constrain(BASE, {X: math.inf}),
        lambda: qr.constrain(BASE, {X: 0.5}, draws=whole(), proposal=BASE),
        lambda: qr.constrain(BASE, {X: 0.5}, draws=qr.Draws.from_arrays([0.0], [0.0])),
    ],
)
def test_constraints_that_cannot_be_understood(call):
    with pytest.raises(qr.errors.InputError):
        call()
