"""How many draws lambda is fitted on, and constraints that cannot be met or understood."""

import math

import numpy as np
import pytest

import quasir as qr
from tests.constraints.random_constraints import BASE, FLAGS, SIZE, SIZE_OF, X, Y, column, whole

COIN = qr.Table({"a": 0.5, "b": 0.5})
IS_B = qr.Feature("b", lambda x: x == "b")


class Counted:
    """A base that counts what it drew."""

    prefix_stable = True

    def __init__(self, table):
        self.table, self.drawn = table, 0

    def sample(self, n, rng):
        self.drawn += n
        return self.table.sample(n, rng)

    def log_prob(self, items):
        return self.table.log_prob(items)


def test_an_easy_constraint_stops_early():
    base = Counted(COIN)
    target = qr.constrain(base, {IS_B: 0.6}, seed=0)
    assert target.precise
    assert target.achieved["b"].se <= 0.005
    assert base.drawn < 40_000


def test_a_harder_constraint_takes_more_and_the_hardest_all():
    drawn = []
    for share in (0.5, 0.1, 0.01):
        base = Counted(qr.Table({"a": 1 - share, "b": share}))
        target = qr.constrain(base, {IS_B: 0.5}, seed=0)
        drawn.append(base.drawn)
    assert drawn == sorted(drawn)
    assert drawn[0] < drawn[-1] == 100_000
    assert not target.precise


def test_rounds_go_on_and_draw_nothing_twice():
    """What is fitted after several rounds is what as many draws at once give."""
    base = Counted(COIN)
    by_rounds = qr.constrain(base, {IS_B: 0.6}, seed=3)
    at_once = qr.constrain(COIN, {IS_B: 0.6}, n=base.drawn, seed=3)
    assert by_rounds.coefficients == at_once.coefficients


def test_a_constraint_that_few_draws_cannot_support_is_tried_with_more():
    rare = qr.Table({"a": 1 - 5e-4, "b": 5e-4})
    base = Counted(rare)
    with pytest.raises(qr.errors.InfeasibleError):
        qr.constrain(rare, {IS_B: 0.5}, n=4096, seed=0)
    qr.constrain(base, {IS_B: 0.02}, seed=0)
    assert base.drawn > 4096


def test_progress_is_told_by_default_once_it_takes_seconds(capsys, monkeypatch):
    from quasir.core import progress

    qr.constrain(COIN, {IS_B: 0.6}, seed=0)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    qr.constrain(COIN, {IS_B: 0.6}, seed=0)
    told = capsys.readouterr().err
    assert "drawn to fit" in told
    assert told.endswith("\n")
    qr.draw(COIN, COIN, 10, seed=0)
    assert "10/10 drawn" in capsys.readouterr().err
    qr.draw(COIN, COIN, 10, seed=0, progress=False)
    qr.QRS(COIN, COIN, 1.0).sample(5, seed=0, progress=False)
    assert capsys.readouterr().err == ""


def test_the_constraint_is_met_together_with_tilts_that_are_given():
    """Base {a: .4, ab: .3, c: .2, d: .1}: the fit once ignored the tilt, and the mean was 0.903."""
    base = qr.Table({"a": 0.4, "ab": 0.3, "c": 0.2, "d": 0.1})
    has_a = qr.Feature("isa", lambda x: "a" in x)
    long = qr.Feature("long", lambda x: len(x) > 1)
    target = qr.constrain(base * qr.tilt(long, 3.0), {has_a: 0.5}, seed=0)
    p = np.exp(target.log_score(["a", "ab", "c", "d"]))
    mean = p[:2].sum() / p.sum()
    assert mean == pytest.approx(0.5, abs=4 * target.achieved["isa"].se)
    assert target.coefficients.keys() == {"isa"}
    with pytest.raises(qr.errors.InputError, match="'long' is wanted for, and is a factor"):
        qr.constrain(base * qr.tilt(long, 3.0), {long: 0.5}, seed=0)


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
        (
            {X: 0.4, SUB: 0.6},
            "sub is at most 0, but the constraint needs a mean of 0.2, which is past that edge",
        ),
        ({X: 0.5, SUB: 0.5}, "on that edge"),
    ],
)
def test_infeasible_constraints(constraints, message):
    with pytest.raises(qr.errors.InfeasibleError) as error:
        qr.constrain(BASE, constraints, n=20_000, seed=0)
    assert message in str(error.value)


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
