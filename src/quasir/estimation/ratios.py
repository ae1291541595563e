"""Sums of powers of the ratio w = P(x)/q(x) below and above any cut.

Everything that section 2.3 of the paper estimates, and every delta-method variance, is made
of a few sums over ``L = {0 < w <= c}`` and ``H = {w > c}``. They come from sorted ratios
(`quasir.estimation.sorted_ratios`) or from bins of ratios (`quasir.estimation.binned_ratios`).

No sum overflows or underflows, whatever the range of w: sums over L are kept in units of the
largest ratio in L, sums over H in units of the largest ratio of all, which H contains.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from quasir.core.types import Array

__all__ = [
    "COLUMN_POWER",
    "LOW_POWER",
    "SAME",
    "Ratios",
    "Straddled",
    "Sums",
    "in_unit",
    "running_sums",
    "suffix_sums",
]

SAME = 1e-9
"""Log ratios that differ by less than this are equal up to rounding."""

LOW_POWER = np.array([1.0, 2.0])
"""The power of w in each sum of `Sums.low`."""
COLUMN_POWER = np.array([1.0, 2.0, 2.0])
"""The power of w in each sum of `Sums.low_columns`."""


@dataclass(frozen=True)
class Straddled:
    """The bins that Q cuts divide, where ratios are known only by bins.

    Attributes
    ----------
    count : array (Q,)
        Draws in the bin; 0 where the cut is an edge.
    sums : array (Q, 2)
        Over the bin, with m = w/M: the sums of m and m^2.
    log_low, log_high : array (Q,)
        The edges of the bin.
    """

    count: Array
    sums: Array
    log_low: Array
    log_high: Array


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Sums over L = {0 < w <= c} and H = {w > c} at Q cuts c.

    Attributes
    ----------
    n : int
        All draws, those with w = 0 included.
    log_max : float
        Log of M, the largest ratio.
    log_cut : array (Q,)
        The cuts.
    n_high : array (Q,)
        Draws in H.
    log_unit : array (Q,)
        Log of the unit U of the sums over L.
    low : array (Q, 2)
        Over L, the sums of w/U and (w/U)^2.
    high : array (Q, 5)
        Over H, with m = w/M and l = log M - log w: the sums of m, m^2, m l, m^2 l, m^2 l^2.
    total : array (5,)
        The same sums over all draws with w > 0.
    low_columns : array (Q, K, 3)
        Over L, for each column f: the sums of (w/U) f, (w/U)^2 f, (w/U)^2 f^2.
    high_columns : array (Q, K, 2)
        Over H, for each column f: the sums of f and f^2.
    straddled : Straddled or None
        Where ratios are binned: the draws that may be in L or in H. No sum contains them.
    """

    n: float
    log_max: float
    log_cut: Array
    n_high: Array
    log_unit: Array
    low: Array
    high: Array
    total: Array
    low_columns: Array
    high_columns: Array
    straddled: Straddled | None = None

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


class Ratios(Protocol):
    """The ratios of draws: sums at cuts, levels to search among, and the largest few."""

    n: int
    log_max: float
    exact_between: bool
    """Whether the sums are exact at every cut, or only at the levels."""

    @property
    def width(self) -> float:
        """The distance in log between levels; 0 where the sums are exact at every cut."""

    @property
    def n_possible(self) -> int:
        """Draws with P(x) > 0."""

    @property
    def n_levels(self) -> int:
        """How many levels there are."""

    def level(self, i: int) -> float:
        """Return the log of level i; levels ascend with i."""

    def reach(self, count: int) -> int:
        """Return the index of the highest level at or below the count-th largest ratio, or < 0."""

    def snap(self, log_cut: Array, to: np.ufunc = np.rint) -> Array:
        """Return the nearest cuts with exact sums, or with floor or ceil those below or above."""

    def largest(self, count: int) -> Array:
        """Return the `count` largest log ratios, or all if fewer, ascending."""

    def at_max(self) -> int:
        """Return how many draws have the largest ratio, up to rounding."""

    def at(self, log_cut: Array) -> Sums:
        """Return the sums at each cut."""


def in_unit(sums: Array, rise: Array) -> Array:
    """Change the unit of sums as in `Sums.high` to one larger by the factor e^rise."""
    s1, s2, s1l, s2l, s2ll = sums.T
    down = np.exp(-rise)
    return np.stack(
        [
            s1 * down,
            s2 * down**2,
            (s1l + rise * s1) * down,
            (s2l + rise * s2) * down**2,
            (s2ll + 2 * rise * s2l + rise**2 * s2) * down**2,
        ],
        axis=1,
    )


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
