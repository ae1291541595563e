"""Draws spread on the edges of bins: the compact form of the ratios that promises are made from.

A function that is concave in w is, on average, smaller after each draw of a bin is moved to the
bin's two edges so that count and sum stay the same. The wealth of a bet is such a function
(`quasir.estimation.betting`), so the spread draws give a lower bound of it, and what they show is
shown by the draws themselves. docs/promises.md has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array
from quasir.estimation.bins import Bins
from quasir.estimation.cells import Cells, cells_of

__all__ = ["Spread"]

FINE_BINS = 2048
"""Draws in memory are binned at the smallest width that needs about this many bins."""
FINEST = 20
"""The smallest width is 2^-20, as that of `Bins`."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Draws by bins of their ratio, with count and sum, for all draws and for each feature.

    Row 0 is for all draws. Each feature has two rows more: the first counts a draw by the feature's
    value, as a share of the way from its least to its greatest value, the second by what is missing
    to 1. For a boolean feature these are the draws where it is true, and where it is false.

    Attributes
    ----------
    n : float
        All draws, those with w = 0 included.
    log_low, log_high : array (B,)
        The edges of the bins that hold draws, ascending; the last is the largest log ratio.
    count : array (1 + 2 K, B)
        The sums of 1, and of each feature's shares.
    total : array (1 + 2 K, B)
        The same sums with each draw weighted by w, in units of the bin's upper edge.
    bounds : dict
        For each feature with a row: its name, and its least and greatest value.
    """

    n: float
    log_low: Array
    log_high: Array
    count: Array
    total: Array
    bounds: dict[str, tuple[float, float]]

    @classmethod
    def of_bins(
        cls,
        n: float,
        bins: Bins,
        log_max: float,
        *,
        names: Sequence[str] = (),
        low_shift: Array | None = None,
        high_shift: Array | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
    ) -> Spread:
        """Return the spread of binned draws, as in a summary.

        Parameters
        ----------
        n : float
            All draws.
        bins : Bins
            Of the draws with w > 0. The sums used are those of 1, e, f and e f.
        log_max : float
            The largest log ratio, which becomes the last edge.
        names : sequence of str
            The features that the first columns of `bins` belong to.
        low_shift, high_shift : array (K,), optional
            The number subtracted from each column before it was summed over L and over H.
        bounds : mapping, optional
            The least and greatest value of each feature that declares them; others get no row.
        """
        kept = {name: ends for name, ends in (bounds or {}).items() if name in names}
        count, total = [bins.count], [bins.sums[:, 0]]
        zero = np.zeros(len(names))
        shifts = (
            zero if low_shift is None else low_shift,
            zero if high_shift is None else high_shift,
        )
        for name, (low, high) in kept.items():
            k = list(names).index(name)
            ef, f = bins.low_columns[:, k, 0], bins.high_columns[:, k, 0]
            total.append((ef + (shifts[0][k] - low) * total[0]) / (high - low))
            count.append((f + (shifts[1][k] - low) * count[0]) / (high - low))
        log_high = bins.edges
        return cls._clipped(n, log_high - bins.width, log_high, count, total, kept, log_max)

    @classmethod
    def of_sorted(
        cls,
        n: float,
        log_w: Array,
        *,
        often: Array | None = None,
        features: Mapping[str, Array] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
    ) -> Spread:
        """Return the spread of draws in memory.

        Parameters
        ----------
        n : float
            All draws.
        log_w : array
            The log ratios of the draws with w > 0, ascending, as `SortedRatios.log_w`.
        often : array, optional
            How often each ratio was drawn; by default once.
        features : mapping, optional
            The values of the features, in the order of `log_w`.
        bounds : mapping, optional
            As in `of_bins`.

        Examples
        --------
        >>> spread = Spread.of_sorted(4, np.log([0.5, 1.0, 2.0]))
        >>> spread.n, spread.count.sum(), spread.zeros
        (4, np.float64(3.0), 1.0)
        """
        features = features or {}
        kept = {name: ends for name, ends in (bounds or {}).items() if name in features}
        if not len(log_w):
            empty = np.empty(0)
            nothing = [empty] * (1 + len(kept))
            return cls._clipped(n, empty, empty, nothing, nothing, kept, -math.inf)
        span = max(float(log_w[-1] - log_w[0]), 2.0**-FINEST)
        width = 2.0 ** -min(FINEST, math.floor(math.log2(FINE_BINS / span)))
        starts, edges = _bins_of(log_w, width)
        sizes = np.diff(starts, append=len(log_w))
        e = np.exp(log_w - np.repeat(edges, sizes))
        if often is not None:
            e *= often
        drawn = sizes.astype(np.float64) if often is None else np.add.reduceat(often * 1.0, starts)
        count, total = [drawn], [np.add.reduceat(e, starts)]
        for name, (low, high) in kept.items():
            share = (np.asarray(features[name], np.float64) - low) / (high - low)
            total.append(np.add.reduceat(e * share, starts))
            count.append(np.add.reduceat(share if often is None else share * often, starts))
        log_max = float(log_w[-1])
        return cls._clipped(n, edges - width, edges, count, total, kept, log_max)

    @classmethod
    def _clipped(
        cls,
        n: float,
        log_low: Array,
        log_high: Array,
        counts: Sequence[Array],
        totals: Sequence[Array],
        bounds: dict[str, tuple[float, float]],
        log_max: float,
    ) -> Spread:
        """Make the largest ratio the last edge, and undo what rounding did to the sums."""
        high = np.minimum(log_high, log_max)
        low = np.minimum(log_low, high)
        count, total = [counts[0]], [totals[0]]
        for ones, weighted in zip(counts[1:], totals[1:], strict=True):
            count += [ones, counts[0] - ones]
            total += [weighted, totals[0] - weighted]
        n_bin = np.clip(np.stack(count), 0.0, counts[0])
        w_bin = np.stack(total) * np.exp(log_high - high)
        return cls(
            n=n,
            log_low=low,
            log_high=high,
            count=n_bin,
            total=np.clip(w_bin, n_bin * np.exp(low - high), n_bin),
            bounds=bounds,
        )

    def scaled(self, times: float) -> Spread:
        """Return so many times the draws, with the same ratios."""
        return replace(self, n=self.n * times, count=self.count * times, total=self.total * times)

    @property
    def zeros(self) -> float:
        """Draws with P(x) = 0."""
        return max(float(self.n - self.count[0].sum()), 0.0)

    @property
    def log_top(self) -> float:
        """The largest log ratio; -inf if no draw has P(x) > 0."""
        return float(self.log_high[-1]) if len(self.log_high) else -math.inf

    @cached_property
    def on_edges(self) -> tuple[Array, Array]:
        """The log edges (2 B,), low ones first, and the draws on each (1 + 2 K, 2 B)."""
        up = _on_upper(self.total, self.count, np.exp(self.log_low - self.log_high), 1.0)
        edges = np.concatenate([self.log_low, self.log_high])
        return edges, np.concatenate([self.count - up, up], axis=1)

    def rows(self, name: str) -> tuple[int, int]:
        """Return the two rows of a feature: how far it is from its least value, and from 1."""
        k = list(self.bounds).index(name)
        return 1 + 2 * k, 2 + 2 * k

    def capped(self, log_level: Array, row: int = 0, *, rounded: str = "down") -> Cells:
        """Return the draws with w capped at each level, by cells below it.

        Parameters
        ----------
        log_level : array (Q,)
        row : int
            The row of the draws.
        rounded : "down" or "up"
            A bin that the level divides is known by its count and sum only. "down" spreads it as
            any other, which is right for concave functions of min(w, level) that rise. "up" puts
            as many of its draws on the level as its sum allows, for those that fall.
        """
        t, weights = self._placed(log_level, row, rounded)
        return cells_of(np.minimum(t, 0.0), weights, self._at_zero(row))

    def open(self, log_level: Array, row: int = 0, *, rounded: str = "down") -> Cells:
        """Return all draws by cells below and above each level; the arguments are as in `capped`.

        "up" moves the draws of the divided bin that lie above the level down to it.
        """
        t, weights = self._placed(log_level, row, rounded)
        rise = np.maximum(self.log_top - log_level, 2.0**-FINEST)
        return cells_of(t, weights, self._at_zero(row), rise)

    def _at_zero(self, row: int) -> float:
        return self.zeros if row == 0 else 0.0

    def _placed(self, log_level: Array, row: int, rounded: str) -> tuple[Array, Array]:
        """Return the log of edge/level (Q, 2 B), and the draws on each edge."""
        edges, weights = self.on_edges
        t = edges - log_level[:, None]
        placed = np.broadcast_to(weights[row], t.shape)
        size = len(self.log_high)
        if rounded == "up" and size:
            bin_ = np.minimum(np.searchsorted(self.log_high, log_level, side="right"), size - 1)
            low, high = self.log_low[bin_], self.log_high[bin_]
            q = np.flatnonzero((low < log_level) & (log_level < high))
            bin_, low, high = bin_[q], low[q], high[q]
            count = self.count[row, bin_]
            level = np.exp(log_level[q] - high)
            up = _on_upper(self.total[row, bin_], count, np.exp(low - high), level)
            placed = placed.copy()
            placed[q, bin_], placed[q, size + bin_] = count - up, up
            t[q, size + bin_] = 0.0
        return t, placed


def _on_upper(total: Array, count: Array, fall: Array, level: Array | float) -> Array:
    """Return how many of a bin's draws go to its upper edge, at `level`; `fall` is the lower."""
    room = level - fall
    with np.errstate(invalid="ignore", divide="ignore"):
        up = np.where(room > 0, (total - count * fall) / room, count)
    clipped: Array = np.clip(up, 0.0, count)
    return clipped


def _bins_of(ascending: Array, width: float) -> tuple[NDArray[np.intp], Array]:
    """Return the first draw of each bin that holds any, and the bins' upper edges."""
    first, last = (math.ceil(end / width) for end in (ascending[0], ascending[-1]))
    if last - first > 8 * FINE_BINS:  # at the smallest width few of many bins hold draws
        place = np.ceil(ascending / width)
        starts = np.flatnonzero(np.concatenate([[True], place[1:] != place[:-1]]))
        return starts, place[starts] * width
    edges = np.arange(first, last + 1) * width
    ends = np.searchsorted(ascending, edges, side="right")
    starts = np.concatenate([[0], ends[:-1]])
    held = ends > starts
    return starts[held], edges[held]
