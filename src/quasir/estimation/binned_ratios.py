"""Ratios known by bins, for draws that do not fit in memory: sums that merge.

Bin j holds the log ratios in ((j - 1) width, j width]. The width is a power of two, so that any two
sets of bins merge, and their sums at an edge are exact; those of a bin are in units of its upper
edge, so none over- or underflows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array
from quasir.estimation.ratios import (
    COLUMN_POWER,
    LOW_POWER,
    SAME,
    SortedRatios,
    Straddled,
    Sums,
    in_unit,
    running_sums,
    suffix_sums,
)

MOST_BINS = 2048
"""The most bins of one shard.

For a normal log ratio TVD is bracketed to (z^2/1024)^2 at z standard deviations, 1 in 10,000 at 3.
"""
MOST_MERGED = 2**14  # the most bins after merging: above it the width is doubled
PLACES = ((2**16, np.uint16), (2**32, np.uint32))
"""How many places the span is first cut into, and the type that numbers them."""
COARSEST, DEEP = 3, 255.0
"""Where bins would have to be wider than 2^-3, all ratios 255 nats below the largest share one."""
FINEST = 20  # the smallest width is 2^-20, about a millionth
PAST = 64.0
"""Levels extend this many nats past the largest ratio: a request may need a beta up there."""


@dataclass(frozen=True)
class Bins:
    """The bins that hold draws, in order; e = w/edge and l = log edge - log w, for K columns f."""

    fineness: int  # the width is 2^-fineness
    open: bool  # the first bin also holds all lower ratios: there is no edge below it
    index: NDArray[np.int64]  # (B,) bin j ends at j times the width
    count: Array  # (B,) draws
    sums: Array  # (B, 5) the sums of e, e^2, e l, e^2 l, e^2 l^2
    low_columns: Array  # (B, K, 3) the sums of e f, e^2 f, e^2 f^2
    high_columns: Array  # (B, K, 2) the sums of f and f^2

    @property
    def edges(self) -> Array:
        """The upper edge of each bin."""
        return self.index.astype(np.float64) * self.width

    @property
    def lower_edges(self) -> Array:
        """The lower edge of each bin; -inf for one that is open."""
        low = self.edges - self.width
        if self.open:
            low[0] = -math.inf
        return low

    @property
    def width(self) -> float:
        """The width of a bin, in log w."""
        return 2.0**-self.fineness

    def __len__(self) -> int:
        return len(self.index)

    @classmethod
    def of(
        cls,
        log_w: Array,
        low_columns: Sequence[Array] = (),
        high_columns: Sequence[Array] = (),
        fineness: int | None = None,
    ) -> Bins:
        """Bin finite log ratios, and pairs of columns as `SortedRatios` has them."""
        k = len(low_columns)
        if not len(log_w):
            finest = FINEST if fineness is None else fineness
            nothing = np.empty(0), np.empty((0, 5)), np.empty((0, k, 3)), np.empty((0, k, 2))
            return cls(finest, False, np.empty(0, np.int64), *nothing)
        order, held, starts, fineness, open_ = _ordered(log_w, fineness)
        count = np.diff(starts, append=len(order))

        def summed(*terms: Array) -> Array:
            return np.stack([np.add.reduceat(term, starts) for term in terms], axis=1)

        d = log_w[order] - np.repeat(held * 2.0**-fineness, count)
        e = np.exp(d)
        ed = e * d
        sums = summed(e, e * e, -ed, -e * ed, ed * ed)
        columns = np.empty((len(held), k, 5))
        for j, (f, g) in enumerate(zip(low_columns, high_columns, strict=True)):
            low = f[order].astype(np.float64, copy=False)
            ef = e * low
            if f.dtype == bool and g is f:  # its square is itself
                columns[:, j] = summed(ef, e * ef, low)[:, [0, 1, 1, 2, 2]]
            else:
                high = low if g is f else g[order]
                columns[:, j] = summed(ef, e * ef, ef * ef, high, high * high)
        halves = columns[:, :, :3], columns[:, :, 3:]
        return cls(fineness, open_, held, count.astype(float), sums, *halves)

    def above(self, count: int) -> float:
        """Return the highest edge with at least `count` draws above it, or -inf."""
        from_top = np.cumsum(self.count[::-1])[::-1]
        enough = np.flatnonzero(from_top >= count)
        return float(self.edges[enough[-1]] - self.width) if len(enough) else -math.inf

    def coarser(self, fineness: int) -> Bins:
        """Return the same draws in wider bins, of width 2^-fineness."""
        by = self.fineness - fineness
        if by <= 0:
            return self
        return self._moved(fineness, -((-self.index) >> by), self.open)  # rounded up

    def floored(self, index: int) -> Bins:
        """Return the same draws with all bins below an index moved into it."""
        if not len(self) or self.index[0] >= index:
            return self
        return self._moved(self.fineness, np.maximum(self.index, index), True)

    def _moved(self, fineness: int, index: NDArray[np.int64], open_: bool) -> Bins:
        """Move each bin to a higher edge, and add up those that then have the same."""
        rise = index * 2.0**-fineness - self.edges
        low_columns = self.low_columns * np.exp(-rise[:, None, None] * COLUMN_POWER)
        columns = [self.count, in_unit(self.sums, rise), low_columns, self.high_columns]
        return self._joined(fineness, index, columns, open_)

    def shifted(self, low: Array, high: Array) -> Bins:
        """Return the sums for columns f + low over L and f + high over H."""
        f1, f2, ff = np.moveaxis(self.low_columns, 2, 0)
        g1, gg = np.moveaxis(self.high_columns, 2, 0)
        e1, e2, n = self.sums[:, :1], self.sums[:, 1:2], self.count[:, None]
        lows = [f1 + low * e1, f2 + low * e2, ff + 2 * low * f2 + low**2 * e2]
        highs = [g1 + high * n, gg + 2 * high * g1 + high**2 * n]
        return replace(
            self, low_columns=np.stack(lows, axis=2), high_columns=np.stack(highs, axis=2)
        )

    @classmethod
    def merged(cls, parts: Sequence[Bins]) -> Bins:
        """Merge bins that have the same columns, at the largest of their widths."""
        fineness = min(part.fineness for part in parts)
        alike = [part.coarser(fineness) for part in parts]
        # Below the first bin of one that is open, nothing is known of where its draws lie.
        floors = [int(part.index[0]) for part in alike if part.open]
        alike = [part.floored(max(floors)) for part in alike] if floors else alike
        index = np.concatenate([part.index for part in alike])
        order = np.argsort(index, kind="stable")
        held = [(p.count, p.sums, p.low_columns, p.high_columns) for p in alike]
        columns = [np.concatenate(each)[order] for each in zip(*held, strict=True)]
        made = cls._joined(fineness, index[order], columns, bool(floors))
        while len(made) > MOST_MERGED:
            floor = int(made.index[-1]) - int(DEEP / made.width)
            if made.fineness > COARSEST or made.index[0] >= floor:
                made = made.coarser(made.fineness - 1)
            else:
                made = made.floored(floor)
        return made

    @classmethod
    def _joined(
        cls, fineness: int, index: NDArray[np.int64], columns: Sequence[Array], open_: bool
    ) -> Bins:
        """Add up the neighbours that have the same index."""
        if len(index):
            starts = _changes(index)
            index = index[starts]
            columns = [np.add.reduceat(column, starts, axis=0) for column in columns]
        return cls(fineness, open_, index, *columns)


def _ordered(
    log_w: Array, fineness: int | None, floor: float = -math.inf
) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.intp], int, bool]:
    """Return the order, the bins' indices and first draws, the fineness, and if it is open."""
    lowest, highest = float(log_w.min()), float(log_w.max())
    if fineness is not None or len(log_w) <= MOST_BINS:
        finest = FINEST if fineness is None else fineness
        place = np.ceil(log_w * 2.0**finest).astype(np.int64)
        order = np.argsort(place)
        starts = _changes(place[order])
        return order, place[order[starts]], starts, finest, False
    open_ = lowest < floor
    lowest, raised = max(lowest, floor), np.maximum(log_w, floor) if open_ else log_w
    span = max(highest - lowest, 2.0**-FINEST)
    # numpy sorts 16 bits by counting, which is fast; where that leaves most places empty, 32.
    for places, kind in PLACES:
        finest = min(FINEST, math.floor(math.log2((places - 2) / span)))
        first = math.ceil(lowest * 2.0**finest)
        place = (np.ceil(raised * 2.0**finest) - first).astype(kind)
        order = np.argsort(place, kind="stable")
        starts = _changes(place[order])
        if len(starts) > MOST_BINS or finest == FINEST:
            break
    held = place[order[starts]].astype(np.int64) + first
    while len(held) > MOST_BINS:
        held, finest = -((-held) >> 1), finest - 1
        new = _changes(held)
        held, starts = held[new], starts[new]
    if finest < COARSEST and span > DEEP:
        return _ordered(log_w, None, highest - DEEP)
    return order, held, starts, finest, open_


def _changes(ascending: NDArray[Any]) -> NDArray[np.intp]:
    return np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]]))


class BinnedRatios:
    """Ratios of draws on disk, with the methods of `SortedRatios`; sums are exact at the edges."""

    exact_between = False

    def __init__(self, n: int, bins: Bins, log_w: Array, often: NDArray[np.int64]) -> None:
        self.n, self._bins = n, bins
        self._log_w, self._often = log_w, often
        self.width = bins.width
        self.log_max = float(log_w[-1]) if len(log_w) else -np.inf
        self.n_possible = int(bins.count.sum())
        self._edges = units = bins.edges
        # Below a bin that is open no edge has exact sums: it is the lowest level itself.
        self._first = int(bins.index[0]) - (not bins.open) if len(bins) else 0
        # Before bin m, in units of the edge below it; from bin m on, in units of the largest ratio.
        self._before = running_sums(units, bins.sums[:, :2], LOW_POWER)
        self._before_columns = running_sums(units, bins.low_columns, COLUMN_POWER)
        self._before_unit = np.concatenate([units[:1], units])
        self._own = in_unit(bins.sums, self.log_max - units)
        self._from = suffix_sums(self._own)
        self._from_columns = suffix_sums(bins.high_columns)
        self._from_count = suffix_sums(bins.count[:, None])[:, 0]

    @property
    def n_levels(self) -> int:
        """How many edges there are from below the smallest ratio to far past the largest."""
        index = self._bins.index
        return int(index[-1]) - self._first + 1 + math.ceil(PAST / self.width) if len(index) else 0

    def level(self, i: int) -> float:
        """Return the log of edge i; every ratio lies above edge 0, unless the bins are open."""
        return (self._first + i) * self.width

    def reach(self, count: int) -> int:
        """Return the index of the highest edge at or below the count-th largest ratio, or -1."""
        largest = self.largest(count)
        if len(largest) < count:
            return -1
        return math.floor(float(largest[0]) / self.width) - self._first

    def snap(self, log_cut: Array, to: np.ufunc = np.rint) -> Array:
        """Return the nearest edges, or with `np.floor` or `np.ceil` those below or above."""
        snapped: Array = to(np.asarray(log_cut, np.float64) / self.width) * self.width
        return np.maximum(snapped, self.level(0)) if self._bins.open else snapped

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
    """Return the `count` largest values, each repeated as often as it was drawn, ascending."""
    ahead = np.cumsum(often[::-1])[::-1] - often
    return np.repeat(log_w, np.clip(count - ahead, 0, often))


Ratios: TypeAlias = SortedRatios | BinnedRatios
