"""Sums of the ratios in bins that merge, for draws that do not fit in memory.

Bin j holds the log ratios in ((j - 1) width, j width]. The width is a power of two, so an edge is a
float exactly, and the edges of wider bins are edges of narrower ones: any two sets of bins merge,
at the wider width, and their sums at an edge are those of the draws themselves. Only bins that hold
draws are kept, so ratios may lie anywhere; the sums of a bin are in units of its upper edge, so
none over- or underflows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array
from quasir.estimation.ratios import COLUMN_POWER, in_unit

__all__ = ["MOST_BINS", "Bins"]

MOST_BINS = 2048
"""The most bins of one shard: its width is the smallest that needs no more.

TVD is bracketed by a share of width^2 times the squared slope of the log density at the cut. For a
normal log ratio this is about (z^2/1024)^2 at z standard deviations, or 1 in 10,000 at z = 3.
"""
MOST_MERGED = 2**14
"""The most bins after merging: above it the width is doubled."""
PLACES = ((2**16, np.uint16), (2**32, np.uint32))
"""How many places the span of the ratios is first cut into, and the type that numbers them."""
FINEST = 20
"""The smallest width is 2^-20, about a millionth."""


@dataclass(frozen=True, kw_only=True)
class Bins:
    """The bins that hold draws, in order.

    Attributes
    ----------
    fineness : int
        The width is 2^-fineness.
    index : array (B,) of int64
        Bin j ends at j times the width.
    count : array (B,)
        Draws in each bin.
    sums : array (B, 5)
        With e = w/edge and l = log edge - log w: the sums of e, e^2, e l, e^2 l, e^2 l^2.
    low_columns : array (B, K, 3)
        For each column f: the sums of e f, e^2 f, e^2 f^2.
    high_columns : array (B, K, 2)
        For each column f: the sums of f and f^2.

    Examples
    --------
    >>> some = Bins.of(np.array([-0.3, 0.1, 0.2]), fineness=1)
    >>> some.index, some.count
    (array([0, 1]), array([1., 2.]))
    >>> Bins.merged([some, Bins.of(np.array([700.0]), fineness=0)]).index
    array([  0,   1, 700])
    """

    fineness: int
    index: NDArray[np.int64]
    count: Array
    sums: Array
    low_columns: Array
    high_columns: Array

    @property
    def edges(self) -> Array:
        """The upper edge of each bin."""
        return self.index.astype(np.float64) * self.width

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
            return cls(
                fineness=FINEST if fineness is None else fineness,
                index=np.empty(0, np.int64),
                count=np.empty(0),
                sums=np.empty((0, 5)),
                low_columns=np.empty((0, k, 3)),
                high_columns=np.empty((0, k, 2)),
            )
        order, held, starts, fineness = _ordered(log_w, fineness)
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
        return cls(
            fineness=fineness,
            index=held,
            count=count.astype(float),
            sums=sums,
            low_columns=columns[:, :, :3],
            high_columns=columns[:, :, 3:],
        )

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
        index = -((-self.index) >> by)  # rounded up
        rise = index * 2.0**-fineness - self.edges
        low_columns = self.low_columns * np.exp(-rise[:, None, None] * COLUMN_POWER)
        columns = [self.count, in_unit(self.sums, rise), low_columns, self.high_columns]
        return self._joined(fineness, index, columns)

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
        index = np.concatenate([part.index for part in alike])
        order = np.argsort(index, kind="stable")
        columns = [
            np.concatenate(each)[order]
            for each in zip(*(part._columns() for part in alike), strict=True)
        ]
        made = cls._joined(fineness, index[order], columns)
        while len(made) > MOST_MERGED:
            made = made.coarser(made.fineness - 1)
        return made

    def _columns(self) -> tuple[Array, Array, Array, Array]:
        return self.count, self.sums, self.low_columns, self.high_columns

    @classmethod
    def _joined(cls, fineness: int, index: NDArray[np.int64], columns: Sequence[Array]) -> Bins:
        """Add up the neighbours that have the same index."""
        if len(index):
            starts = _changes(index)
            index = index[starts]
            columns = [np.add.reduceat(column, starts, axis=0) for column in columns]
        count, sums, low_columns, high_columns = columns
        return cls(
            fineness=fineness,
            index=index,
            count=count,
            sums=sums,
            low_columns=low_columns,
            high_columns=high_columns,
        )


def _ordered(
    log_w: Array, fineness: int | None
) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.intp], int]:
    """Return the draws in order of their bins, the bins' indices and first draws, the fineness."""
    if fineness is not None or len(log_w) <= MOST_BINS:
        finest = FINEST if fineness is None else fineness
        place = np.ceil(log_w * 2.0**finest).astype(np.int64)
        order = np.argsort(place)
        starts = _changes(place[order])
        return order, place[order[starts]], starts, finest
    lowest = float(log_w.min())
    span = max(float(log_w.max()) - lowest, 2.0**-FINEST)
    # numpy sorts 16 bits by counting, which is fast; where that leaves most places empty, 32.
    for places, kind in PLACES:
        finest = min(FINEST, math.floor(math.log2((places - 2) / span)))
        first = math.ceil(lowest * 2.0**finest)
        place = (np.ceil(log_w * 2.0**finest) - first).astype(kind)
        order = np.argsort(place, kind="stable")
        starts = _changes(place[order])
        if len(starts) > MOST_BINS or finest == FINEST:
            break
    held = place[order[starts]].astype(np.int64) + first
    while len(held) > MOST_BINS:
        held, finest = -((-held) >> 1), finest - 1
        new = _changes(held)
        held, starts = held[new], starts[new]
    return order, held, starts, finest


def _changes(ascending: NDArray[Any]) -> NDArray[np.intp]:
    """Return where each value occurs first."""
    return np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]]))
