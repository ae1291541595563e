"""Whether the proposal reaches what the target allows."""

import math

import numpy as np
import pytest
from scipy import stats

import quasir as qr
from quasir.draws.base_check import BaseCheck
from quasir.draws.support import check_by_base
from quasir.runs.draw_shards import draw_into
from quasir.store import Store

BASE = qr.Table({"a": 0.5, "b": 0.5})
ONLY_A = qr.Table({"a": 1.0})


class Unlisted:
    """A distribution whose items cannot be listed."""

    def __init__(self, table):
        self.table = table

    def sample(self, n, rng):
        return self.table.sample(n, rng)

    def log_prob(self, items):
        return self.table.log_prob(items)


def test_a_cut_support_is_an_error_before_drawing_where_it_is_listed():
    """Base {a, b}, proposal {a}: the TVD is 0.5, and was certified as [0, 0.0018]."""
    for target in (BASE, qr.Product(BASE), BASE * qr.tilt(qr.Feature("x", len), 1.0)):
        with pytest.raises(qr.InputError, match=r"'b', which have 0\.5 of its mass.*below 0\.5"):
            qr.draw(target, ONLY_A, 2000, seed=0)
        for sampler in (qr.QRS(target, ONLY_A, 1.0), qr.IMH(target, ONLY_A)):
            with pytest.raises(qr.InputError, match="TVD cannot fall below"):
                sampler.sample(10, seed=0)


def test_the_mass_that_is_cut_is_that_of_the_target():
    rare = qr.Feature("b", lambda x: x == "b")
    target = BASE * qr.tilt(rare, math.log(9))
    with pytest.raises(qr.InputError, match=r"have 0\.9 of its mass"):
        qr.draw(target, ONLY_A, 10, seed=0)


def test_what_the_target_forbids_may_be_cut():
    is_a = qr.Feature("a", lambda x: x == "a")
    assert len(qr.draw(BASE * is_a, ONLY_A, 100, seed=0)) == 100
    both = qr.Mixture([ONLY_A, BASE])
    assert len(qr.draw(BASE, both, 100, seed=0)) == 100
    poissons = [qr.from_scipy(stats.poisson(rate)) for rate in (11, 10)]
    assert len(qr.draw(*poissons, 100, seed=0)) == 100


def test_draws_of_the_base_show_a_cut_that_cannot_be_listed(tmp_path):
    base = Unlisted(BASE)
    draws = qr.draw(qr.Product(base), ONLY_A, 4000, seed=0)
    for curve in (qr.tradeoff(draws), saved_curve(draws, tmp_path, stream=True)):
        (doubt,) = [doubt for doubt in curve.at(beta=1.0).doubts if "have q = 0" in doubt]
        share = float(doubt.split("about ")[1].split(" ")[0])
        assert share == pytest.approx(0.5, abs=4 * 0.5 / 16)


def saved_curve(draws, folder, stream):
    draws.save(folder / "run")
    return qr.tradeoff(folder / "run", stream=stream)


def test_ratios_far_above_those_seen_are_a_doubt():
    base = Unlisted(BASE)
    nearly = qr.Table({"a": 1 - 1e-9, "b": 1e-9})
    doubts = qr.tradeoff(qr.draw(qr.Product(base), nearly, 4000, seed=0)).doubts
    assert any("more than twice the largest that was drawn" in doubt for doubt in doubts)


def test_a_proposal_that_reaches_all_raises_no_doubt():
    base = Unlisted(BASE)
    for proposal in (base, qr.Mixture([ONLY_A, base]), qr.Table({"a": 0.4, "b": 0.6})):
        doubts = qr.tradeoff(qr.draw(qr.Product(base), proposal, 4000, seed=0)).doubts
        assert not any("draws of the base" in doubt for doubt in doubts)


def test_the_share_is_weighted_by_the_target():
    """256 draws of the base stand for the target by P/a: b counts nine times as much."""
    base = Unlisted(BASE)
    target = qr.Product(base) * qr.tilt(qr.Feature("b", lambda x: x == "b"), math.log(9))
    check = check_by_base(target, ONLY_A, seed=0)
    b = sum(1 for x in check.log_ratio if x == math.inf)
    assert check.share_above(1e300)[0] == pytest.approx(9 * b / (9 * b + 256 - b))
    assert check_by_base(qr.Table({"a": 1}), ONLY_A, seed=0) is None


def test_it_is_kept_with_a_store(tmp_path):
    check = BaseCheck(3, (0.5, math.inf), (0.0, -1.0))
    assert BaseCheck.from_dict(check.to_dict()) == check
    assert BaseCheck.from_dict(None) is None
    store = Store.create(tmp_path, 0, base_check=check.to_dict())
    draw_into(store, BASE, ONLY_A, 1024)
    assert qr.Draws.load(tmp_path).base_check == check
    for wrong in ({}, {"draws": 1, "log_ratio": [1.0], "log_weight": []}, {"draws": "x"}):
        with pytest.raises(qr.StoreError, match="base_check cannot be read"):
            BaseCheck.from_dict(wrong)


def test_draws_stay_as_they_were():
    """The check has a stream of its own: the draws are those of the blocks."""
    base = Unlisted(BASE)
    proposal = qr.Table({"a": 0.4, "b": 0.6})
    few = qr.draw(qr.Product(base), proposal, 100, seed=3)
    many = qr.draw(qr.Product(base), proposal, 5000, seed=3)
    np.testing.assert_array_equal(few.log_u, many.log_u[:100])
    assert list(few.items) == list(many.items[:100])
    assert few.base_check is None
    assert many.base_check is not None
