"""Ratios in memory: sorted once, then summed below and above any cut.

The ratios are summed chunk by chunk. The sums at any cut are those of the whole chunks on its left
and on its right, plus a part of one chunk. A cut takes microseconds, for any number of draws.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array
from quasir.estimation.ratios import (
    COLUMN_POWER,
    LOW_POWER,
    SAME,
    Sums,
    in_unit,
    running_sums,
    suffix_sums,
)

__all__ = ["SortedRatios"]

CHUNK = 2048
GROUP = 64
"""Chunks that are summed together: a megabyte, which stays in cache."""


class SortedRatios:
    """The ratios in ascending order, prepared for sums at any cut.

    Parameters
    ----------
    log_ratio : array
        Log of the ratio of every draw; -inf where P(x) = 0.
    low_columns, high_columns : sequences of arrays
        Columns summed over L (with weights w and w^2) and over H (without). They come in pairs:
        for a feature the two are the same array, for KL(p_beta, a) they differ.
    """

    exact_between = True
    width = 0.0

    def __init__(
        self,
        log_ratio: Array,
        low_columns: Sequence[Array] = (),
        high_columns: Sequence[Array] = (),
    ) -> None:
        self.n = len(log_ratio)
        possible = log_ratio > -np.inf
        some_impossible = not possible.all()
        kept = log_ratio[possible] if some_impossible else log_ratio
        self._low: list[Array] = []
        self._high: list[Array] = []
        if low_columns:
            order = np.argsort(kept)
            self.log_w = kept[order]
            if some_impossible:
                order = np.flatnonzero(possible)[order]
            self._low = [np.asarray(column, np.float64)[order] for column in low_columns]
            self._high = [
                sorted_low if high is low else np.asarray(high, np.float64)[order]
                for low, high, sorted_low in zip(low_columns, high_columns, self._low, strict=True)
            ]
        else:
            self.log_w = np.sort(kept)
        self.log_max = float(self.log_w[-1]) if len(self.log_w) else -np.inf
        self._sum_chunks()

    @property
    def columns(self) -> list[Array]:
        """The columns that are summed over L, in the order of `log_w`."""
        return self._low

    @property
    def n_possible(self) -> int:
        """Draws with P(x) > 0."""
        return len(self.log_w)

    @property
    def n_levels(self) -> int:
        """How many levels there are: each ratio is one."""
        return len(self.log_w)

    def level(self, i: int) -> float:
        """Return the i-th smallest log ratio."""
        return float(self.log_w[i])

    def reach(self, count: int) -> int:
        """Return the index of the count-th largest ratio; below 0 if there are fewer."""
        return len(self.log_w) - count

    def snap(self, log_cut: Array, to: np.ufunc = np.rint) -> Array:
        """Return the cuts unchanged: the sums are exact everywhere."""
        return log_cut

    def largest(self, count: int) -> Array:
        """Return the `count` largest log ratios, or all if fewer, ascending."""
        return self.log_w[max(len(self.log_w) - count, 0) :]

    def at_max(self) -> int:
        """Return how many draws have the largest ratio, up to rounding."""
        return len(self.log_w) - int(np.searchsorted(self.log_w, self.log_max - SAME))

    def _sum_chunks(self) -> None:
        size, step = len(self.log_w), CHUNK * GROUP
        pieces = []
        for start in range(0, size, step):
            stop = min(start + step, size)
            whole = start + (stop - start) // CHUNK * CHUNK
            for a, b, rows in ((start, whole, (whole - start) // CHUNK), (whole, stop, 1)):
                if a < b:
                    log_w = self.log_w[a:b].reshape(rows, -1)
                    low = [f[a:b].reshape(rows, -1) for f in self._low]
                    high = [f[a:b].reshape(rows, -1) for f in self._high]
                    pieces.append((log_w[:, -1], *_local_sums(log_w, log_w[:, -1], low, high)))
        columns = len(self._low)
        empty = (
            np.empty(0),
            np.empty((0, 5)),
            np.empty((0, columns, 3)),
            np.empty((0, columns, 2)),
        )
        units, sums, low_columns, high_columns = (
            np.concatenate(parts) for parts in zip(empty, *pieces, strict=True)
        )
        # Before chunk m: the sums over all earlier chunks, in units of the largest of them.
        self._before = running_sums(units, sums[:, :2], LOW_POWER)
        self._before_columns = running_sums(units, low_columns, COLUMN_POWER)
        self._before_unit = np.concatenate([units[:1], units])
        # From chunk m on: the sums over it and all later chunks, in units of the largest of all.
        self._from = suffix_sums(in_unit(sums, self.log_max - units))
        self._from_columns = suffix_sums(high_columns)

    def at(self, log_cut: Array) -> Sums:
        """Return the sums at each cut."""
        log_cut = np.atleast_1d(np.asarray(log_cut, dtype=np.float64))
        parts = [self._at(log_cut[i : i + 256]) for i in range(0, len(log_cut), 256)]
        joined = [np.concatenate(column) for column in zip(*parts, strict=True)]
        n_high, unit, low, high, low_columns, high_columns = joined
        return Sums(
            n=float(self.n),
            log_max=self.log_max,
            log_cut=log_cut,
            n_high=n_high,
            log_unit=unit,
            low=low,
            high=high,
            total=self._from[0],
            low_columns=low_columns,
            high_columns=high_columns,
        )

    def _at(self, log_cut: Array) -> tuple[Array, Array, Array, Array, Array, Array]:
        size, q = len(self.log_w), len(log_cut)
        index = np.searchsorted(self.log_w, log_cut, side="right")
        n_high = (size - index).astype(np.float64)
        if size == 0:
            k = len(self._low)
            zeros = np.zeros
            return (
                n_high,
                zeros(q),
                zeros((q, 2)),
                zeros((q, 5)),
                zeros((q, k, 3)),
                zeros((q, k, 2)),
            )
        chunk = index // CHUNK
        place = chunk[:, None] * CHUNK + np.arange(min(CHUNK, size))
        below, inside = place < index[:, None], place < size
        place = np.minimum(place, size - 1)
        log_w = self.log_w[place]
        low_rows, high_rows = [f[place] for f in self._low], [f[place] for f in self._high]

        unit = self.log_w[np.maximum(index - 1, 0)]
        sums, low_columns, _ = _local_sums(log_w, unit, low_rows, high_rows, below)
        shift = np.minimum(self._before_unit[chunk] - unit, 0.0)
        low = sums[:, :2] + self._before[chunk] * np.exp(shift[:, None] * LOW_POWER)
        low_columns = low_columns + self._before_columns[chunk] * np.exp(
            shift[:, None, None] * COLUMN_POWER
        )

        top = self.log_w[np.minimum((chunk + 1) * CHUNK, size) - 1]
        above = inside & ~below
        sums, _, high_columns = _local_sums(log_w, top, low_rows, high_rows, above)
        later = np.minimum(chunk + 1, len(self._from) - 1)
        high = in_unit(sums, self.log_max - top) + self._from[later]
        return n_high, unit, low, high, low_columns, high_columns + self._from_columns[later]


def _local_sums(
    log_w: Array,
    unit: Array,
    low_columns: Sequence[Array],
    high_columns: Sequence[Array],
    mask: NDArray[np.bool_] | None = None,
) -> tuple[Array, Array, Array]:
    """Sum the rows of log_w: powers of e = w/unit and of l = log unit - log w >= 0."""
    d = log_w - unit[:, None]
    if mask is not None:
        d = np.where(mask, d, 0.0)
    e = np.exp(d)
    if mask is not None:
        e = np.where(mask, e, 0.0)
    ed = e * d
    sums = np.stack(
        [e.sum(axis=1), _dot(e, e), -ed.sum(axis=1), -_dot(e, ed), _dot(ed, ed)], axis=1
    )
    low = np.empty((len(unit), len(low_columns), 3))
    high = np.empty((len(unit), len(low_columns), 2))
    for k, (f, g) in enumerate(zip(low_columns, high_columns, strict=True)):
        ef = e * f
        low[:, k] = np.stack([ef.sum(axis=1), _dot(e, ef), _dot(ef, ef)], axis=1)
        if mask is not None:
            g = np.where(mask, g, 0.0)
        high[:, k] = np.stack([g.sum(axis=1), _dot(g, g)], axis=1)
    return sums, low, high


def _dot(a: Array, b: Array) -> Array:
    sums: Array = np.einsum("ij,ij->i", a, b)
    return sums
