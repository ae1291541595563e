"""Means with their standard errors, and spreads over runs."""

import math

import numpy as np
import pytest
from scipy import stats

import quasir as qr
from quasir.metrics import Runs, moments, over_runs

VALUE = qr.Feature("value", lambda x: np.asarray(x, dtype=float), batched=True)
ABOVE = qr.Feature("above", lambda x: np.asarray(x) > 1, batched=True)


def test_by_hand():
    got = moments(np.array([1, 2, 4, 5]), [VALUE, ABOVE])
    assert list(got) == ["value", "above"]
    assert got["value"].value == 3
    assert got["value"].se == pytest.approx(math.sqrt(10 / 3) / 2)
    assert got["above"].value == 0.75
    assert got["above"].se == pytest.approx(math.sqrt(0.75 * 0.25 / 3))
    wilson = stats.binomtest(3, 4).proportion_ci(method="wilson")
    assert (got["above"].low, got["above"].high) == pytest.approx(tuple(wilson))


def test_texts_and_one_feature():
    got = moments(["a chemist", "a day"], qr.features.science)
    assert got["science"].value == 0.5


def test_all_alike_and_one_alone():
    sure = moments(np.full(100, 2), [VALUE, ABOVE])
    assert sure["value"].se == 0
    assert sure["above"].low < 0.97  # a hundred of a hundred do not make it certain
    one = moments(np.array([2]), [VALUE, ABOVE])
    assert math.isnan(one["value"].se)
    assert (one["value"].low, one["value"].high) == (-math.inf, math.inf)
    assert math.isnan(one["above"].se)
    assert 0 < one["above"].low < one["above"].high == 1


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_the_boolean_interval_covers_by_summing_over_all_outcomes(p):
    n, covered = 50, 0.0
    for k in range(n + 1):
        part = moments(np.where(np.arange(n) < k, 2, 0), ABOVE)["above"]
        covered += stats.binom(n, p).pmf(k) * (part.low <= p <= part.high)
    assert 0.93 < covered < 0.98


def test_the_real_interval_covers():
    rng = np.random.default_rng(0)
    parts = [moments(rng.exponential(size=200), VALUE)["value"] for _ in range(2000)]
    covered = np.mean([part.low <= 1 <= part.high for part in parts])
    narrow = np.mean([abs(part.value - 1) <= 1.3 * part.se for part in parts])
    assert 0.925 < covered < 0.965
    assert narrow < 0.9  # an interval that is too narrow would be seen


@pytest.mark.parametrize(
    "call",
    [
        lambda: moments([], VALUE),
        lambda: moments([1, 2], [len]),
        lambda: moments([1, 2], [VALUE, VALUE]),
        lambda: over_runs([]),
        lambda: over_runs([1.0, math.nan]),
        lambda: over_runs([math.inf]),
    ],
)
def test_what_is_refused(call):
    with pytest.raises(qr.errors.InputError):
        call()


def test_over_runs():
    runs = over_runs([0.5, 0.7, 0.6, 0.6])
    assert runs.mean == pytest.approx(0.6)
    assert runs.sd == pytest.approx(math.sqrt(0.02 / 3))
    assert runs.runs == 4
    assert str(runs) == "0.6 ± 0.082"
    assert over_runs(x for x in (1, 3)) == Runs(2.0, math.sqrt(2), 2)
    one = over_runs([0.25])
    assert math.isnan(one.sd)
    assert str(one) == "0.25 (one run)"
    with pytest.raises(AttributeError):
        runs.mean = 1.0


def test_over_runs_of_estimates():
    estimates = [qr.Estimate(value, 0.1, 0.0, 1.0) for value in (0.2, 0.4)]
    assert over_runs(estimates).mean == pytest.approx(0.3)
