"""How many draws lambda is fitted on, where nobody says."""

import numpy as np
import pytest

import quasir as qr

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
