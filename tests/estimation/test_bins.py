"""Bins of ratios and summaries of draws, against sums that are written out."""

import math

import numpy as np
import pytest

from quasir.estimation.binned_ratios import COARSEST, DEEP, FINEST, MOST_BINS, BinnedRatios, Bins
from quasir.estimation.ratios import SortedRatios
from quasir.estimation.summary import Summary, kept


def plain(log_w, fineness, f=None):
    """Return the bins of Python's own arithmetic: their indices, and rows of count and sums."""
    width, found = 2.0**-fineness, {}
    f = np.zeros(len(log_w)) if f is None else f
    for x, value in zip(log_w.tolist(), f.astype(float).tolist(), strict=True):
        j = math.ceil(x / width)
        e, rest = math.exp(x - j * width), j * width - x
        terms = (1, e, e**2, e * rest, e**2 * rest, e**2 * rest**2)
        columns = (e * value, e**2 * value, e**2 * value**2, value, value**2)
        found[j] = np.add(found.get(j, 0.0), (*terms, *columns))
    return sorted(found), np.array([found[j] for j in sorted(found)])


@pytest.mark.parametrize("fineness", [0, 1, 4])
@pytest.mark.parametrize("kind", [bool, float])
def test_bins_are_sums_over_their_draws(fineness, kind):
    rng = np.random.default_rng(0)
    log_w = np.round(rng.normal(0, 3, 400), 2)  # some on edges
    f = rng.random(400) < 0.3 if kind is bool else rng.normal(5, 2, 400)
    bins = Bins.of(log_w, [f], [f], fineness)
    index, rows = plain(log_w, fineness, f)
    assert bins.index.tolist() == index
    np.testing.assert_array_equal(bins.count, rows[:, 0])
    np.testing.assert_allclose(bins.sums, rows[:, 1:6], rtol=1e-12)
    np.testing.assert_allclose(bins.low_columns[:, 0], rows[:, 6:9], rtol=1e-12)
    np.testing.assert_allclose(bins.high_columns[:, 0], rows[:, 9:], rtol=1e-12)
    wider = bins.coarser(fineness - 2)
    index, rows = plain(log_w, fineness - 2, f)
    assert wider.index.tolist() == index
    np.testing.assert_allclose(wider.sums, rows[:, 1:6], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(wider.low_columns[:, 0], rows[:, 6:9], rtol=1e-9)
    moved = bins.shifted(np.array([2.0]), np.array([3.0]))
    _, rows = plain(log_w, fineness, f + 2.0)
    np.testing.assert_allclose(moved.low_columns[:, 0], rows[:, 6:9], rtol=1e-9)
    _, rows = plain(log_w, fineness, f + 3.0)
    np.testing.assert_allclose(moved.high_columns[:, 0], rows[:, 9:], rtol=1e-9)


@pytest.mark.parametrize("n", [1, MOST_BINS, MOST_BINS + 1, 20_000])
@pytest.mark.parametrize("spread", [1e-9, 1.0, 300.0, 3000.0])
def test_the_width_is_the_smallest_that_needs_no_more_bins(n, spread):
    log_w = 5.0 + spread * np.random.default_rng(n).normal(size=n)
    bins = Bins.of(log_w)
    assert len(bins) <= MOST_BINS
    assert bins.count.sum() == n
    assert bins.open == (len(plain(log_w, COARSEST)[0]) > MOST_BINS)
    if bins.open:  # one bin for all that is far below the largest
        log_w = np.maximum(log_w, log_w.max() - DEEP)
    if bins.fineness < FINEST:
        assert len(plain(log_w, bins.fineness + 1)[0]) > MOST_BINS
    index, rows = plain(log_w, bins.fineness)
    assert bins.index.tolist() == index
    np.testing.assert_array_equal(bins.count, rows[:, 0])


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
