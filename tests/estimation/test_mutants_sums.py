"""Bins, tails and intervals of proportions, against sums that are written out."""

import math

import numpy as np
import pytest

import quasir as qr
from quasir.estimation.binned_ratios import COARSEST, DEEP, FINEST, MOST_BINS, BinnedRatios, Bins
from quasir.estimation.estimate import Z95
from quasir.estimation.intervals import Tail, fit_tail, tail_size, wilson_interval
from quasir.estimation.ratios import SortedRatios
from quasir.estimation.summary import Summary, kept


def plain(log_w, fineness, f=None):
    """Return the bins of Python's own arithmetic: index -> count and sums."""
    width, found = 2.0**-fineness, {}
    f = np.zeros(len(log_w)) if f is None else f
    for x, value in zip(log_w.tolist(), f.tolist(), strict=True):
        j = math.ceil(x / width)
        e, rest = math.exp(x - j * width), j * width - x
        terms = (1, e, e**2, e * rest, e**2 * rest, e**2 * rest**2)
        columns = (e * value, e**2 * value, e**2 * value**2, value, value**2)
        found[j] = np.add(found.get(j, 0.0), (*terms, *columns))
    return found


@pytest.mark.parametrize("fineness", [0, 1, 4])
@pytest.mark.parametrize("kind", [bool, float])
def test_bins_are_sums_over_their_draws(fineness, kind):
    rng = np.random.default_rng(0)
    log_w = np.round(rng.normal(0, 3, 400), 2)  # some on edges
    f = rng.random(400) < 0.3 if kind is bool else rng.normal(5, 2, 400)
    bins = Bins.of(log_w, [f], [f], fineness)
    expected = plain(log_w, fineness, f.astype(float))
    assert bins.index.tolist() == sorted(expected)
    rows = np.array([expected[j] for j in sorted(expected)])
    np.testing.assert_array_equal(bins.count, rows[:, 0])
    np.testing.assert_allclose(bins.sums, rows[:, 1:6], rtol=1e-12)
    np.testing.assert_allclose(bins.low_columns[:, 0], rows[:, 6:9], rtol=1e-12)
    np.testing.assert_allclose(bins.high_columns[:, 0], rows[:, 9:], rtol=1e-12)
    wider = bins.coarser(fineness - 2)
    expected = plain(log_w, fineness - 2, f.astype(float))
    rows = np.array([expected[j] for j in sorted(expected)])
    assert wider.index.tolist() == sorted(expected)
    np.testing.assert_allclose(wider.sums, rows[:, 1:6], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(wider.low_columns[:, 0], rows[:, 6:9], rtol=1e-9)
    moved = bins.shifted(np.array([2.0]), np.array([3.0]))
    expected = plain(log_w, fineness, f.astype(float) + 2.0)
    rows = np.array([expected[j] for j in sorted(expected)])
    np.testing.assert_allclose(moved.low_columns[:, 0], rows[:, 6:9], rtol=1e-9)
    expected = plain(log_w, fineness, f.astype(float) + 3.0)
    rows = np.array([expected[j] for j in sorted(expected)])
    np.testing.assert_allclose(moved.high_columns[:, 0], rows[:, 9:], rtol=1e-9)


@pytest.mark.parametrize("n", [1, MOST_BINS, MOST_BINS + 1, 20_000])
@pytest.mark.parametrize("spread", [1e-9, 1.0, 300.0, 3000.0])
def test_the_width_is_the_smallest_that_needs_no_more_bins(n, spread):
    log_w = 5.0 + spread * np.random.default_rng(n).normal(size=n)
    bins = Bins.of(log_w)
    assert len(bins) <= MOST_BINS
    assert bins.count.sum() == n
    assert bins.open == (len(plain(log_w, COARSEST)) > MOST_BINS)
    if bins.open:  # one bin for all that is far below the largest
        log_w = np.maximum(log_w, log_w.max() - DEEP)
    if bins.fineness < FINEST:
        assert len(plain(log_w, bins.fineness + 1)) > MOST_BINS
    expected = plain(log_w, bins.fineness)
    assert bins.index.tolist() == sorted(expected)
    np.testing.assert_array_equal(bins.count, [expected[j][0] for j in sorted(expected)])


@pytest.mark.parametrize("count", [1, 2, 5, 6, 7])
def test_the_highest_edge_with_enough_draws_above(count):
    bins = Bins.of(np.array([0.1, 0.2, 1.5, 1.6, 1.7, 4.5]), fineness=0)
    edges = {1: 4.0, 2: 1.0, 5: 0.0, 6: 0.0, 7: -math.inf}
    assert bins.above(count) == edges[count]


@pytest.mark.parametrize("count", [1, 3, 4, 10])
def test_binned_and_sorted_ratios_reach_as_far(count):
    log_w = np.array([-3.3, -1.2, 0.4, 0.4, 2.6])
    values, often = np.unique(log_w, return_counts=True)
    binned = BinnedRatios(9, Bins.of(log_w, fineness=1), values, often)
    place = binned.reach(count)
    if count > 5:
        assert place == -1
        return
    smallest = np.sort(log_w)[-count]
    assert binned.level(place) == math.floor(2 * smallest) / 2
    assert binned.level(0) < log_w.min() <= binned.level(1)
    assert binned.level(binned.n_levels - 1) > log_w.max() + 60
    np.testing.assert_array_equal(binned.largest(3), [0.4, 0.4, 2.6])
    assert binned.at_max() == 1


@pytest.mark.parametrize(("n", "size"), [(0, 0), (5, 1), (24, 4), (25, 5), (225, 45), (400, 60)])
def test_the_size_of_the_tail(n, size):
    """The smaller of n/5 and 3 sqrt(n); they meet at 225."""
    assert tail_size(n) == size
    assert kept(n) == math.ceil(1.1 * size) + 64


def test_a_summary_keeps_the_largest_ratios_and_knows_what_it_lacks():
    log_w = np.repeat(np.arange(500.0), 2)
    summary = Summary.of(log_w, np.zeros(1000), keep=7)
    # Seven draws are wanted, two have each ratio: the fourth is kept whole.
    np.testing.assert_array_equal(summary.log_w, [496.0, 497.0, 498.0, 499.0])
    np.testing.assert_array_equal(summary.often, [2, 2, 2, 2])
    assert summary.whole_above == 496.0
    for fineness in (0, -4):  # the wider bins hold more draws than are kept
        exactly = Summary.of(log_w, np.zeros(1000), keep=8, fineness=fineness)
        np.testing.assert_array_equal(exactly.log_w, [496.0, 497.0, 498.0, 499.0])
    both = Summary.merged([exactly, exactly], keep=8)
    np.testing.assert_array_equal(both.log_w, [498.0, 499.0])
    np.testing.assert_array_equal(both.often, [4, 4])
    assert both.whole_above == 498.0
    everything = Summary.of(log_w, np.zeros(1000), keep=1000)
    assert everything.whole_above == -math.inf


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


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (3, 10), (10, 10), (50, 1000)])
def test_wilsons_interval_is_where_the_score_test_ends(hits, n):
    """Its ends are the p with |hits/n - p| = z sqrt(p (1 - p)/n)."""
    share = np.array([hits / n])
    for end in wilson_interval(share, np.array([float(n)])):
        p = float(end[0])
        if p not in (0.0, 1.0):
            assert abs(hits / n - p) == pytest.approx(Z95 * math.sqrt(p * (1 - p) / n), rel=1e-9)
    low, high = wilson_interval(share, np.array([float(n)]))
    assert (low[0] == 0) == (hits == 0)
    assert (high[0] == 1) == (hits == n)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
def test_a_boolean_mean_of_equal_ratios_has_wilsons_interval(share):
    """Where all ratios are equal, the mean under p is a proportion of N draws."""
    flag = np.arange(1000) < 1000 * share
    draws = qr.Draws.from_arrays(np.zeros(1000), np.zeros(1000), features={"f": flag})
    moment = qr.tradeoff(draws).at(beta=1).moments["f"]
    low, high = wilson_interval(np.array([share]), np.array([1000.0]))
    assert moment.value == pytest.approx(share, abs=1e-12)
    assert moment.low == pytest.approx(low[0], rel=1e-9, abs=1e-15)
    assert moment.high == pytest.approx(high[0], rel=1e-9)


@pytest.mark.parametrize("often", [[1, 1, 400], [400, 1, 1], [1, 400, 1], [200, 200, 200]])
def test_the_largest_ratios_are_counted_from_the_top(often):
    """A summary keeps the largest ratios, until they are enough draws."""
    log_w = np.repeat([0.0, 1.0, 2.0], often)
    keep = kept(len(log_w))
    summary = Summary.of(log_w, np.zeros(len(log_w)))
    above = [sum(often[i + 1 :]) for i in range(3)]
    there = [i for i in range(3) if above[i] < keep]
    assert summary.log_w.tolist() == [float(i) for i in there]
    assert summary.often.tolist() == [often[i] for i in there]
    assert summary.whole_above == (-math.inf if len(there) == 3 else float(there[0]))


def test_without_a_possible_draw_the_sums_have_the_same_shapes():
    columns, cuts = [np.arange(5.0), np.arange(5) > 2], np.zeros(3)
    none, some = (
        SortedRatios(np.full(5, log_p), columns, columns).at(cuts) for log_p in (-np.inf, 0.0)
    )
    for name in ("n_high", "log_unit", "low", "high", "low_columns", "high_columns"):
        assert getattr(none, name).shape == getattr(some, name).shape
        assert not getattr(none, name).any()
