"""Ratios known only by bins and by the largest few: the same sums, exact at the bins' edges."""

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
"""Levels extend this many nats past the largest ratio: a wish may need a beta up there."""


class BinnedRatios:
    """Ratios of draws on disk, with the methods of `SortedRatios`.

    Parameters
    ----------
    n : int
        All draws, those with w = 0 included.
    bins : Bins
        The draws with w > 0.
    log_w, often : arrays
        The largest log ratios, ascending and without repeats, and how often each was drawn.
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
        """How many edges there are from below the smallest ratio to far past the largest."""
        index = self._bins.index
        return int(index[-1] - index[0]) + 2 + math.ceil(PAST / self.width) if len(index) else 0

    def level(self, i: int) -> float:
        """Return the log of edge i; every ratio lies above edge 0."""
        return (int(self._bins.index[0]) - 1 + i) * self.width

    def reach(self, count: int) -> int:
        """Return the index of the highest edge at or below the count-th largest ratio, or -1."""
        if self.n_possible < count:
            return -1
        smallest = float(self.largest(count)[0])
        return math.floor(smallest / self.width) - (int(self._bins.index[0]) - 1)

    def snap(self, log_cut: Array, to: np.ufunc = np.rint) -> Array:
        """Return the nearest edges, or with `np.floor` or `np.ceil` those below or above."""
        snapped: Array = to(np.asarray(log_cut, np.float64) / self.width) * self.width
        return snapped

    def largest(self, count: int) -> Array:
        """Return the `count` largest log ratios, or all that are kept if fewer, ascending."""
        return largest_of(self._log_w, self._often, count)

    def at_max(self) -> int:
        """Return how many draws have the largest ratio, up to rounding."""
        return int(self._often[self._log_w >= self.log_max - SAME].sum())

    def at(self, log_cut: Array) -> Sums:
        """Return the sums at each cut; `straddled` has the bins that a cut divides."""
        log_cut = np.atleast_1d(np.asarray(log_cut, dtype=np.float64))
        below = np.searchsorted(self._edges, log_cut, side="right")
        size = len(self._edges)
        if size:
            bin_ = np.minimum(below, size - 1)
            cut = (below < size) & (self._edges[bin_] - self.width < log_cut)
            straddled = Straddled(
                count=np.where(cut, self._bins.count[bin_], 0.0),
                sums=np.where(cut[:, None], self._own[bin_, :2], 0.0),
                log_low=self._edges[bin_] - self.width,
                log_high=self._edges[bin_],
            )
            above = below + cut
            unit = self._before_unit[below]
        else:
            above, unit, straddled = below, np.zeros(len(log_cut)), None
        return Sums(
            n=float(self.n),
            log_max=self.log_max,
            log_cut=log_cut,
            n_high=self._from_count[above],
            log_unit=unit,
            low=self._before[below],
            high=self._from[above],
            total=self._from[0],
            low_columns=self._before_columns[below],
            high_columns=self._from_columns[above],
            straddled=straddled,
        )


def largest_of(log_w: Array, often: NDArray[np.int64], count: int) -> Array:
    """Return the `count` largest values, each repeated as often as it was drawn, ascending.

    Examples
    --------
    >>> largest_of(np.array([0.5, 1.0, 2.0]), np.array([5, 2, 1]), 4)
    array([0.5, 1. , 1. , 2. ])
    """
    ahead = np.cumsum(often[::-1])[::-1] - often
    return np.repeat(log_w, np.clip(count - ahead, 0, often))
