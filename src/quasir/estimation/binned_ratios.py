"""Ratios of which only bins and the largest few are known: the same sums, exact at bin edges."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array
from quasir.estimation.bins import Bins
from quasir.estimation.ratios import (
    COLUMN_POWER,
    LOW_POWER,
    SAME,
    Straddled,
    Sums,
    in_unit,
    running_sums,
    suffix_sums,
)

__all__ = ["BinnedRatios", "largest_of"]

PAST = 64.0
"""Levels go on for this many nats past the largest ratio, where a wish may still look for one."""


class BinnedRatios:
    """Stands in for `SortedRatios` where the draws are on disk.

    Parameters
    ----------
    n : int
        All draws, those with w = 0 included.
    bins : Bins
        Of those with w > 0.
    log_w, often : arrays
        The largest log ratios, ascending, each once, and how often each was drawn.
    """

    exact_between = False

    def __init__(self, n: int, bins: Bins, log_w: Array, often: NDArray[np.int64]) -> None:
        self.n, self._bins = n, bins
        self._log_w, self._often = log_w, often
        self.log_max = float(log_w[-1]) if len(log_w) else -np.inf
        self.n_possible = int(bins.count.sum())
        units = bins.edges
        self._edges = units
        # Before bin m, in units of the edge below it; from bin m on, in units of the largest ratio.
        self._before = running_sums(units, bins.sums[:, :2], LOW_POWER)
        self._before_columns = running_sums(units, bins.low_columns, COLUMN_POWER)
        self._before_unit = np.concatenate([units[:1], units])
        self._own = in_unit(bins.sums, self.log_max - units)
        self._from = suffix_sums(self._own)
        self._from_columns = suffix_sums(bins.high_columns)
        self._from_count = suffix_sums(bins.count[:, None])[:, 0]

    @property
    def width(self) -> float:
        """The bins' width, in log w."""
        return self._bins.width

    @property
    def n_levels(self) -> int:
        """Every edge is a level, from below the smallest ratio to far past the largest."""
        index = self._bins.index
        return int(index[-1] - index[0]) + 2 + math.ceil(PAST / self.width) if len(index) else 0

    def level(self, i: int) -> float:
        """Return the log of an edge; the first has every ratio above it."""
        return (int(self._bins.index[0]) - 1 + i) * self.width

    def reach(self, count: int) -> int:
        """Return the highest edge that is at most the count-th largest ratio; -1 where none is."""
        if self.n_possible < count:
            return -1
        tenth = float(self.largest(count)[0])
        return math.floor(tenth / self.width) - (int(self._bins.index[0]) - 1)

    def snap(self, log_cut: Array, to: np.ufunc = np.rint) -> Array:
        """Return the nearest edges, or (`np.floor`) those below."""
        snapped: Array = to(np.asarray(log_cut, np.float64) / self.width) * self.width
        return snapped

    def largest(self, count: int) -> Array:
        """Return the largest log ratios, `count` of them or all that are kept, ascending."""
        return largest_of(self._log_w, self._often, count)

    def at_max(self) -> int:
        """Return how many draws have the largest ratio, but for rounding."""
        return int(self._often[self._log_w >= self.log_max - SAME].sum())

    def at(self, log_cut: Array) -> Sums:
        """Return the sums at each of the cuts; `straddled` has the bins that are cut in two."""
        log_cut = np.atleast_1d(np.asarray(log_cut, dtype=np.float64))
        below = np.searchsorted(self._edges, log_cut, side="right")
        size = len(self._edges)
        if size:
            bin_ = np.minimum(below, size - 1)
            cut = (below < size) & (self._edges[bin_] - self.width < log_cut)
            straddled = Straddled(
                np.where(cut, self._bins.count[bin_], 0.0),
                np.where(cut[:, None], self._own[bin_, :2], 0.0),
                self._edges[bin_] - self.width,
                self._edges[bin_],
            )
            above = below + cut
            unit = self._before_unit[below]
        else:
            above, unit, straddled = below, np.zeros(len(log_cut)), None
        return Sums(
            float(self.n),
            self.log_max,
            log_cut,
            self._from_count[above],
            unit,
            self._before[below],
            self._from[above],
            self._from[0],
            self._before_columns[below],
            self._from_columns[above],
            straddled,
        )


def largest_of(log_w: Array, often: NDArray[np.int64], count: int) -> Array:
    """Return the `count` largest of values that each came so often, or all of them, ascending.

    Examples
    --------
    >>> largest_of(np.array([0.5, 1.0, 2.0]), np.array([5, 2, 1]), 4)
    array([0.5, 1. , 1. , 2. ])
    """
    ahead = np.cumsum(often[::-1])[::-1] - often
    return np.repeat(log_w, np.clip(count - ahead, 0, often))
