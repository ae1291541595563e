"""Sums of powers of the ratio w = P(x)/q(x) below and above any cut, from sorted ratios.

All estimates and their variances are made of sums over ``L = {0 < w <= c}``, in units of the
largest ratio in L, and over ``H = {w > c}``, in units of the largest of all: none overflows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array
from quasir.draws.acceptance import log_ratio_of

SAME = 1e-9  # log ratios that differ by less than this are equal up to rounding

LOW_POWER = np.array([1.0, 2.0])  # the power of w in each sum of `Sums.low`
COLUMN_POWER = np.array([1.0, 2.0, 2.0])  # the power of w in each sum of `Sums.low_columns`

CHUNK = 2048
GROUP = 64  # chunks that are summed together: a megabyte, which stays in cache


@dataclass(frozen=True)
class Straddled:
    """The bins that Q cuts divide, where ratios are known only by bins."""

    count: Array  # (Q,) draws in the bin; 0 where the cut is an edge
    sums: Array  # (Q, 2) over the bin, with m = w/M: the sums of m and m^2
    log_low: Array  # (Q,) the edges of the bin
    log_high: Array


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Sums over L = {0 < w <= c} and H = {w > c} at Q cuts c, for K columns f."""

    n: float  # all draws, those with w = 0 included
    log_max: float  # log of M, the largest ratio
    log_cut: Array  # (Q,)
    n_high: Array  # (Q,) draws in H
    log_unit: Array  # (Q,) log of the unit U of the sums over L
    low: Array  # (Q, 2) over L: w/U and (w/U)^2
    high: Array  # (Q, 5) over H, with m = w/M, l = log M - log w: m, m^2, m l, m^2 l, m^2 l^2
    total: Array  # (5,) the same over all draws with w > 0
    low_columns: Array  # (Q, K, 3) over L: (w/U) f, (w/U)^2 f, (w/U)^2 f^2
    high_columns: Array  # (Q, K, 2) over H: f and f^2
    straddled: Straddled | None = None  # draws that may be in L or in H; no sum contains them

    def plus_draw(self, log_w: float) -> Sums:
        """Return the sums with one more draw, of ratio w; the columns do not change."""
        log_m = log_w - self.log_max
        powers = np.exp(log_m * np.array([1.0, 2.0, 1.0, 2.0, 2.0]))
        more = powers * np.array([1.0, 1.0, -log_m, -log_m, log_m**2])
        above = log_w > self.log_cut
        with np.errstate(over="ignore"):
            low_more = np.exp((log_w - self.log_unit)[:, None] * LOW_POWER)
        return replace(
            self,
            n=self.n + 1,
            n_high=self.n_high + above,
            low=self.low + np.where(above[:, None], 0.0, low_more),
            high=self.high + np.where(above[:, None], more, 0.0),
            total=self.total + more,
        )


class SortedRatios:
    """Ratios in memory, sorted once; sums at a cut are those of whole chunks and a part of one."""

    exact_between = True
    """Whether the sums are exact at every cut, or only at the levels."""
    width = 0.0  # the distance in log between such levels

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
        self.columns: list[Array] = []  # those summed over L, in the order of `log_w`
        self._high: list[Array] = []
        if low_columns:
            order = np.argsort(kept)
            self.log_w = kept[order]
            if some_impossible:
                order = np.flatnonzero(possible)[order]
            self.columns = [np.asarray(column, np.float64)[order] for column in low_columns]
            self._high = [
                own if high is low else np.asarray(high, np.float64)[order]
                for low, high, own in zip(low_columns, high_columns, self.columns, strict=True)
            ]
        else:
            self.log_w = np.sort(kept)
        self.n_possible = self.n_levels = len(self.log_w)
        self.log_max = float(self.log_w[-1]) if len(self.log_w) else -np.inf
        self._sum_chunks()

    def level(self, i: int) -> float:
        """Return the i-th smallest log ratio: each ratio is a level."""
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
        size, step, k = len(self.log_w), CHUNK * GROUP, len(self.columns)
        pieces = [(np.empty(0), np.empty((0, 5)), np.empty((0, k, 3)), np.empty((0, k, 2)))]
        for start in range(0, size, step):
            stop = min(start + step, size)
            whole = start + (stop - start) // CHUNK * CHUNK
            for a, b, rows in ((start, whole, (whole - start) // CHUNK), (whole, stop, 1)):
                if a < b:
                    log_w = self.log_w[a:b].reshape(rows, -1)
                    low = [f[a:b].reshape(rows, -1) for f in self.columns]
                    high = [f[a:b].reshape(rows, -1) for f in self._high]
                    pieces.append((log_w[:, -1], *_local_sums(log_w, log_w[:, -1], low, high)))
        units, sums, low_columns, high_columns = map(np.concatenate, zip(*pieces, strict=True))
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
        names = ("n_high", "log_unit", "low", "high", "low_columns", "high_columns")
        sums: dict[str, Any] = {
            name: np.concatenate(each)
            for name, each in zip(names, zip(*parts, strict=True), strict=True)
        }
        common = {"log_max": self.log_max, "log_cut": log_cut, "total": self._from[0]}
        return Sums(n=float(self.n), **common, **sums)

    def _at(self, log_cut: Array) -> tuple[Array, ...]:
        size, q, k = len(self.log_w), len(log_cut), len(self.columns)
        if size == 0:
            zero = np.zeros(q)
            columns = np.zeros((q, k, 3)), np.zeros((q, k, 2))
            return zero, zero, np.zeros((q, 2)), np.zeros((q, 5)), *columns
        index = np.searchsorted(self.log_w, log_cut, side="right")
        chunk = index // CHUNK
        place = chunk[:, None] * CHUNK + np.arange(min(CHUNK, size))
        below, inside = place < index[:, None], place < size
        place = np.minimum(place, size - 1)
        log_w = self.log_w[place]
        low_rows, high_rows = [f[place] for f in self.columns], [f[place] for f in self._high]

        unit = self.log_w[np.maximum(index - 1, 0)]
        sums, low_columns, _ = _local_sums(log_w, unit, low_rows, high_rows, below)
        shift = np.minimum(self._before_unit[chunk] - unit, 0.0)
        low = sums[:, :2] + self._before[chunk] * np.exp(shift[:, None] * LOW_POWER)
        low_columns = low_columns + self._before_columns[chunk] * np.exp(
            shift[:, None, None] * COLUMN_POWER
        )

        top = self.log_w[np.minimum((chunk + 1) * CHUNK, size) - 1]
        sums, _, high_columns = _local_sums(log_w, top, low_rows, high_rows, inside & ~below)
        later = np.minimum(chunk + 1, len(self._from) - 1)
        high = in_unit(sums, self.log_max - top) + self._from[later]
        n_high = (size - index).astype(np.float64)
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


def _dot(a: Array, b: Array) -> Any:
    return np.einsum("ij,ij->i", a, b)


def in_unit(sums: Array, rise: Array) -> Array:
    """Change the unit of sums as in `Sums.high` to one larger by the factor e^rise."""
    s1, s2, s1l, s2l, s2ll = sums.T
    down = np.exp(-rise)
    changed = [
        s1 * down,
        s2 * down**2,
        (s1l + rise * s1) * down,
        (s2l + rise * s2) * down**2,
        (s2ll + 2 * rise * s2l + rise**2 * s2) * down**2,
    ]
    return np.stack(changed, axis=1)


def running_sums(units: Array, sums: Array, power: Array) -> Array:
    """Return row m = the sum of the rows before m, in units of the largest of them."""
    out = np.zeros((len(units) + 1, *sums.shape[1:]))
    falls = np.exp((np.concatenate([units[:1], units[:-1]]) - units)[:, None] * power)
    for m, (fall, row) in enumerate(zip(falls, sums, strict=True)):
        out[m + 1] = out[m] * fall + row
    return out


def suffix_sums(sums: Array) -> Array:
    """Return row m = the sum of the rows m, m + 1, ..., and a last row of zeros."""
    out = np.zeros((len(sums) + 1, *sums.shape[1:]))
    out[:-1] = np.cumsum(sums[::-1], axis=0)[::-1]
    return out


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The ratios of draws, and the columns that are summed with them."""

    log_ratio: Array
    names: tuple[str, ...]  # of the features
    boolean: tuple[bool, ...]  # whether each is 0 or 1 wherever P(x) > 0
    has_base: bool  # whether log a is known; the last column is then the base's
    low: list[Array]  # the columns summed over L and over H: for a feature the same array, of
    high: list[Array]  # booleans or float64; for the base log P/a - log M, and log q/a
    low_shift: Array  # (K,) what was subtracted from each column: far from 0, a column loses
    high_shift: Array  # digits in its variance

    def over_all(self) -> tuple[Array, Array]:
        """Return the mean of each column over all draws, and its sum of squared deviations."""
        means, spreads = [], []
        for column, shift in zip(self.high, self.high_shift, strict=True):
            # Where the base cannot make a draw, log q/a is infinite, and has no variance.
            with np.errstate(invalid="ignore", over="ignore"):
                mean = float(column.mean())
                # No dot product: a matrix library would start threads that then wait for the next.
                variance = mean * (1 - mean) if column.dtype == bool else float(column.var())
            means.append(mean + shift)
            spreads.append(variance * len(column))
        return np.array(means), np.array(spreads)


def ratio_columns(
    log_p: Array,
    log_q: Array,
    log_base: Array | None = None,
    features: Mapping[str, NDArray[Any]] | None = None,
) -> Columns:
    """Return the ratios and the columns of draws; the arguments are as in `Draws`."""
    log_ratio = log_ratio_of(log_p, log_q)
    possible = log_ratio > -np.inf
    everything = bool(possible.all())
    low: list[Array] = []
    boolean, shifts = [], []
    for values in (features or {}).values():
        column = values if values.dtype == bool else np.asarray(values, np.float64)
        seen = column if everything else column[possible]
        # The first 100 values settle it for most columns that are not boolean.
        is_boolean = values.dtype == bool or all(
            bool(((part == 0) | (part == 1)).all()) for part in (seen[:100], seen)
        )
        shift = 0.0 if is_boolean or not len(seen) else float(seen.mean())
        boolean.append(is_boolean)
        shifts.append(shift)
        low.append(column - shift if shift else column)
    high, low_shift, high_shift = list(low), list(shifts), list(shifts)
    if log_base is not None:
        largest = float(log_ratio.max(initial=-np.inf))
        low_shift.append(largest if largest > -np.inf else 0.0)
        high_shift.append(0.0)
        with np.errstate(invalid="ignore"):
            low.append(log_p - log_base - low_shift[-1])
        high.append(log_q - log_base)
    return Columns(
        log_ratio=log_ratio,
        names=tuple(features or {}),
        boolean=tuple(boolean),
        has_base=log_base is not None,
        low=low,
        high=high,
        low_shift=np.array(low_shift),
        high_shift=np.array(high_shift),
    )
