"""The fitted tail of the ratios, against PSIS, integrals and its own inverse."""

import math
from dataclasses import replace

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import integrate, stats

from quasir.estimation.intervals import Tail, fit_tail, tail_size
from quasir.estimation.ratios import SortedRatios
from quasir.estimation.summary import kept


@pytest.mark.parametrize("shape", [-0.3, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("n", [500, 20_000])
def test_pareto_k_is_that_of_psis(shape, n):
    rng = np.random.default_rng(int(100 * shape) + n + 100)
    log_w = np.log(1 + stats.genpareto(shape).rvs(n, random_state=rng))
    tail = fit_tail(SortedRatios(log_w))
    _, k = array_stats.psislw(-log_w)  # it negates what it is given
    assert tail.k == pytest.approx(float(k), abs=1e-6)
    assert tail.k == pytest.approx(shape, abs=6 * (1 + abs(shape)) / np.sqrt(tail.count))


@pytest.mark.parametrize("shape", [-0.3, 1e-12, 0.3, 0.8])
def test_what_lies_above_beta_by_the_fit(shape):
    rng = np.random.default_rng(0)
    log_w = np.log(1 + stats.genpareto(0.2).rvs(5000, random_state=rng))
    fitted = fit_tail(SortedRatios(log_w))
    tail = replace(fitted, k=shape)
    law = stats.genpareto(shape, loc=tail.threshold, scale=tail.scale)
    beta = tail.threshold + 1.5 * tail.scale
    top = min(law.support()[1], np.inf)
    share = tail.count / tail.n

    def mean(f):
        return share * integrate.quad(lambda w: f(w) * law.pdf(w), beta, top, limit=500)[0]

    got = tail.above(tail.log_max + np.log(beta))
    want = (
        share * law.sf(beta),
        mean(lambda w: w),
        mean(lambda w: w - beta),
        mean(lambda w: w * np.log(w / beta)),
    )
    np.testing.assert_allclose(got, want, rtol=2e-3)


def test_ties_and_too_few():
    assert fit_tail(SortedRatios(np.zeros(100))).k == -np.inf
    assert np.isnan(fit_tail(SortedRatios(np.array([0.0, 1.0]))).k)
    assert np.isnan(fit_tail(SortedRatios(np.full(50, -np.inf))).k)
    mostly = np.full(10_000, -np.inf)
    mostly[:40] = np.random.default_rng(0).normal(size=40)
    assert np.isfinite(fit_tail(SortedRatios(mostly)).k)
    wide = np.random.default_rng(0).uniform(-300, 300, 1000)
    assert fit_tail(SortedRatios(wide)).k > 1


@pytest.mark.parametrize(("n", "size"), [(0, 0), (5, 1), (24, 4), (25, 5), (225, 45), (400, 60)])
def test_the_size_of_the_tail(n, size):
    """The smaller of n/5 and 3 sqrt(n); they meet at 225."""
    assert tail_size(n) == size
    assert kept(n) == math.ceil(1.1 * size) + 64


def tail_of(**changes):
    facts = {"k": 0.3, "scale": 0.2, "threshold": 0.4, "count": 50, "n": 1000}
    facts |= {"log_max": 2.0, "at_max": 1}
    return Tail(**(facts | changes))


@pytest.mark.parametrize("k", [-0.4, 0.0, 1e-12, 0.3, 0.9, 2.0])
def test_the_ratio_that_a_given_mass_exceeds(k):
    """By the tail: q(w > t) = count/n (1 + k (t - threshold)/scale)^(-1/k)."""
    tail, mass = tail_of(k=k), 1e-5
    if abs(k) < 1e-9:
        t = 0.4 + 0.2 * math.log(0.05 / mass)
    else:
        t = 0.4 + 0.2 * ((0.05 / mass) ** k - 1) / k
    expected = 2.0 + max(0.0, math.log(t))
    assert tail.log_ratio_at(mass) == pytest.approx(expected, rel=1e-9)
    if t > 1:
        assert tail.above(expected).share == pytest.approx(mass, rel=1e-6)


def test_a_ratio_that_was_drawn_often_is_the_largest():
    assert tail_of(at_max=4).log_ratio_at(1e-9) > 2.0
    assert tail_of(at_max=5).log_ratio_at(1e-9) == 2.0
    assert tail_of(k=math.nan).log_ratio_at(1e-9) == 2.0
    assert tail_of(log_ceiling=2.1).log_ratio_at(1e-9) == 2.1


def test_beyond_a_bounded_tail_there_is_nothing():
    """With k < 0 the tail ends at threshold - scale/k."""
    end = math.log(0.4 + 0.2 / 0.25) + 2.0
    tail = tail_of(k=-0.25)
    assert tail.above(end + 1e-9) == (0, 0, 0, 0)
    assert min(tail.above(end - 1e-3)) > 0
    heavy = tail_of(k=1.0).above(3.0)
    assert heavy.share > 0
    assert heavy[1:] == (math.inf, math.inf, math.inf)


def test_where_beta_meets_the_ceiling_nothing_exceeds_it():
    tail = tail_of(log_ceiling=3.0)
    np.testing.assert_array_equal(
        tail.exceeds_all(np.array([2.9, 3.0 - 1e-8, 3.0 - 1e-10, 3.0, 3.1])),
        [False, False, True, True, True],
    )
    log_w = np.random.default_rng(0).normal(size=100)
    top = float(log_w.max())
    assert fit_tail(SortedRatios(log_w), top).log_ceiling == top
    assert fit_tail(SortedRatios(log_w), top - 1e-10).log_ceiling == top - 1e-10
    assert fit_tail(SortedRatios(log_w), top - 1e-8).log_ceiling == math.inf
