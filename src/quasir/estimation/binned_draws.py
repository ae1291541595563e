"""Draws moved to the edges of bins: the compact form of the ratios that guarantees are made from.

The wealth of a bet is concave in w, so moving each draw of a bin to the bin's two edges, with the
same count and sum, gives a lower bound of it (proof: docs/records/proofs.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array
from quasir.estimation.binned_ratios import FINEST, Bins

FINE_BINS = 2048  # draws in memory are binned at the smallest width that needs about this many bins
NEAR, FAR_BINS = 64.0, 512
"""These bins are within 64 nats of the largest ratio; the draws below are in 512, by rank."""
BELOW, PER_NAT = 8, 16
"""Cells below a level: 16 to the nat for 8 nats, then one down to w = 0.

Bets are straight in w there: a cell of width d adds d^2/12 of the variance, 1 in 3,000.
"""
ABOVE = 128  # cells between a level and the largest ratio, evenly in log w

NONE = np.empty(0)


@dataclass(frozen=True, kw_only=True)
class BinnedDraws:
    """Draws by bins of their ratio, with count and sum, for all draws and for each feature.

    Row 0 is for all draws. Each feature has two rows more: the first counts a draw by the feature's
    value, as a share of the way between its bounds, the second by what is missing to 1.
    """

    n: float  # all draws, those with w = 0 included
    log_low: Array  # (B,) the edges of the bins that hold draws, ascending
    log_high: Array  # the last is the largest log ratio
    count: Array  # (1 + 2 K, B) the sums of 1, and of each feature's shares
    total: Array  # the same sums with each draw weighted by w, in units of the bin's upper edge
    bounds: dict[str, tuple[float, float]]  # of each feature with rows, its least and greatest

    @classmethod
    def of_bins(
        cls,
        n: float,
        bins: Bins,
        log_max: float,
        names: Sequence[str] = (),
        low_shift: Array = NONE,
        high_shift: Array = NONE,
        bounds: Mapping[str, tuple[float, float]] | None = None,
    ) -> BinnedDraws:
        """Return the draws of a summary, from its bins."""
        kept = {name: ends for name, ends in (bounds or {}).items() if name in names}
        count, total = [bins.count], [bins.sums[:, 0]]
        for name, (low, high) in kept.items():
            k = list(names).index(name)
            ef, f = bins.low_columns[:, k, 0], bins.high_columns[:, k, 0]
            total.append((ef + (low_shift[k] - low) * total[0]) / (high - low))
            count.append((f + (high_shift[k] - low) * count[0]) / (high - low))
        return cls._clipped(n, bins.lower_edges, bins.edges, count, total, kept, log_max)

    @classmethod
    def of_sorted(
        cls,
        n: float,
        log_w: Array,
        *,
        often: Array | None = None,
        features: Mapping[str, Array] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
    ) -> BinnedDraws:
        """Return draws in memory, from their log ratios, ascending."""
        features = features or {}
        kept = {name: ends for name, ends in (bounds or {}).items() if name in features}
        if not len(log_w):
            nothing = [NONE] * (1 + len(kept))
            return cls._clipped(n, NONE, NONE, nothing, nothing, kept, -math.inf)
        starts, log_low, log_high = _bins_of(log_w)
        sizes = np.diff(starts, append=len(log_w))
        e = np.exp(log_w - np.repeat(log_high, sizes))
        if often is not None:
            e *= often
        drawn = sizes.astype(np.float64) if often is None else np.add.reduceat(often * 1.0, starts)
        count, total = [drawn], [np.add.reduceat(e, starts)]
        for name, (low, high) in kept.items():
            share = (np.asarray(features[name], np.float64) - low) / (high - low)
            total.append(np.add.reduceat(e * share, starts))
            count.append(np.add.reduceat(share if often is None else share * often, starts))
        return cls._clipped(n, log_low, log_high, count, total, kept, float(log_w[-1]))

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
    ) -> BinnedDraws:
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

    def scaled(self, times: float) -> BinnedDraws:
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

    def capped(
        self, log_level: Array, row: int = 0, *, rounded: str = "down"
    ) -> tuple[Array, Array]:
        """Return w/level, capped at 1, on the edges of cells, and the draws on each edge.

        "up" moves the draws of the divided bin that lie above the level down to it.
        """
        t, weights = self._placed(log_level, row, rounded)
        log_w, held = _cells(np.minimum(t, 0.0), weights, 0.0 if row else self.zeros)
        return np.exp(log_w), held

    def open(self, log_level: Array) -> tuple[Array, Array]:
        """Return log w/level on the edges of cells below and above, and the draws on each."""
        t, weights = self._placed(log_level, 0, "down")
        rise = np.maximum(self.log_top - log_level, 2.0**-FINEST)
        return _cells(t, weights, self.zeros, rise)

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
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        up = np.where(room > 0, (total - count * fall) / room, count)
    clipped: Array = np.clip(up, 0.0, count)
    return clipped


def _bins_of(log_w: Array) -> tuple[NDArray[np.intp], Array, Array]:
    """Return the first draw of each bin that holds any, and the bins' lower and upper edges."""
    top = log_w[-1]
    far = int(np.searchsorted(log_w, top - NEAR))
    groups = np.unique(np.linspace(0, far, FAR_BINS + 1).astype(np.intp))
    near = log_w[far:] - top
    span = max(-float(near[0]), 2.0**-FINEST)
    width = 2.0 ** -min(FINEST, math.floor(math.log2(FINE_BINS / span)))
    place = np.floor(near / width)
    starts = np.flatnonzero(np.concatenate([[True], place[1:] != place[:-1]]))
    # A bin's edges hold all its draws; bins may touch, but must not overlap.
    edges = place[starts] * width
    low = top + edges
    low[0] = max(low[0], log_w[far - 1]) if far else low[0]
    high = top + np.minimum(edges + width, 0.0)
    return (
        np.concatenate([groups[:-1], far + starts]),
        np.concatenate([log_w[groups[:-1]], low]),
        np.concatenate([log_w[groups[1:] - 1], high]),
    )


def _cells(
    t: Array, weights: Array, zeros: float, rise: Array | None = None
) -> tuple[Array, Array]:
    """Move draws to the edges of cells; the first edge of each level is w = 0."""
    levels, lowest = len(t), BELOW * PER_NAT
    below = np.concatenate([[-np.inf], np.arange(-lowest, 1) / PER_NAT])
    edges = np.broadcast_to(below, (levels, len(below)))
    # The first cell reaches down to w = 0, however far a draw lies below its level.
    cell = np.floor(np.maximum(t, -BELOW - 1.0) * PER_NAT).astype(np.int64) + lowest + 1
    cell = np.maximum(cell, 0)
    if rise is not None:
        steps = rise[:, None] / ABOVE
        edges = np.concatenate([edges, np.arange(1, ABOVE + 1) * steps], axis=1)
        cell = np.where(
            t >= 0, lowest + 1 + np.floor(np.maximum(t, 0.0) / steps).astype(np.int64), cell
        )
    size = edges.shape[1]
    cell = np.minimum(cell, size - 2)
    low, high = (np.take_along_axis(edges, cell + up, axis=1) for up in (0, 1))
    # The share s with w = (1 - s) low + s high.
    share = np.clip((np.exp(t - high) - np.exp(low - high)) / -np.expm1(low - high), 0.0, 1.0)
    flat = (cell + np.arange(levels)[:, None] * size).ravel()
    on_high = weights * share
    held: Array = np.zeros(levels * size)
    held += np.bincount(flat, (weights - on_high).ravel(), levels * size)
    held += np.bincount(flat + 1, on_high.ravel(), levels * size)
    held = held.reshape(levels, size)
    held[:, 0] += zeros
    return edges, held
