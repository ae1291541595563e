"""The input of the estimates: the ratios, with columns for the features and the base.

The draws may be in memory, sorted by their ratio, or on disk, summed in bins. The columns are the
same, and `quasir.certificates.evaluator.Evaluator` makes the same estimates from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array
from quasir.draws.acceptance import log_ratio_of
from quasir.draws.base_check import BaseCheck, seen_by_base
from quasir.draws.draws import Draws
from quasir.draws.known import Known
from quasir.estimation.estimate import Z95, Estimate
from quasir.estimation.quantities import Key, Moment
from quasir.estimation.ratios import Ratios
from quasir.estimation.sorted_ratios import SortedRatios
from quasir.estimation.spread import Spread

__all__ = ["Basis", "basis_of", "means_under_q", "ratio_columns"]


@dataclass(frozen=True, kw_only=True)
class Basis:
    """The input of an `Evaluator`.

    Attributes
    ----------
    ratios : Ratios
        With a pair of columns for each feature, and one for the base where there is one.
    names, boolean : tuple
        For each feature: its name, and whether it is always 0 or 1.
    shift : array
        For each feature: the number subtracted from it before it was summed.
    has_base : bool
        Whether the last pair is log P/a - log M (over L) and log q/a (over H).
    means_of_q : callable
        Returns, by name, the means over all draws, also those with P(x) = 0.
    doubts : tuple of str
        Doubts that come with the draws, such as a proposal that cannot reach all of P.
    known : Known
        What is known about ratios that were not drawn.
    base_check : BaseCheck or None
        Draws of the base, which may bound Z.
    spread : callable
        Returns the draws in the form that promises are made from.
    """

    ratios: Ratios
    names: tuple[str, ...]
    boolean: tuple[bool, ...]
    shift: Array
    has_base: bool
    means_of_q: Callable[[], dict[Key, Estimate]]
    doubts: tuple[str, ...]
    known: Known
    base_check: BaseCheck | None
    spread: Callable[[], Spread]


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The ratios of draws, and the columns that are summed with them.

    Attributes
    ----------
    log_ratio : array (N,)
    names, boolean : tuple
        For each feature: its name, and whether it is 0 or 1 wherever P(x) > 0.
    has_base : bool
        Whether log_base is known; the last column is then the base's.
    low, high : list of arrays (N,)
        The columns summed over L and over H. For a feature they are the same array, of booleans
        or float64; for the base they are log P/a - log M and log q/a.
    low_shift, high_shift : array (K,)
        The number subtracted from each column: far from 0, a column loses digits in its variance.
    """

    log_ratio: Array
    names: tuple[str, ...]
    boolean: tuple[bool, ...]
    has_base: bool
    low: list[Array]
    high: list[Array]
    low_shift: Array
    high_shift: Array

    def over_all(self) -> tuple[Array, Array]:
        """Return the mean of each column over all draws, and its sum of squared deviations."""
        means, spreads = [], []
        for column, shift in zip(self.high, self.high_shift, strict=True):
            mean = float(column.mean())
            means.append(mean + shift)
            # No dot product: a matrix library would start threads that then wait for the next.
            variance = mean * (1 - mean) if column.dtype == bool else float(column.var())
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


def basis_of(draws: Draws) -> Basis:
    """Return the basis of draws in memory, sorted by their ratio."""

    def columns_again() -> Columns:
        return ratio_columns(draws.log_p, draws.log_q, draws.log_base, draws.features)

    columns = columns_again()
    ratios = SortedRatios(columns.log_ratio, columns.low, columns.high)

    def spread() -> Spread:
        features = {
            name: column + shift
            for name, column, shift in zip(
                columns.names, ratios.columns, columns.low_shift, strict=False
            )
        }
        bounds = draws.known.bounds
        return Spread.of_sorted(len(draws), ratios.log_w, features=features, bounds=bounds)

    return Basis(
        ratios=ratios,
        names=columns.names,
        boolean=columns.boolean,
        shift=columns.low_shift[: len(columns.names)],
        has_base=columns.has_base,
        # The columns are as large as the draws, so they are computed again instead of kept.
        means_of_q=lambda: means_under_q(
            tuple(draws.features), *columns_again().over_all(), len(draws)
        ),
        doubts=draws.doubts + seen_by_base(draws.base_check, columns.log_ratio.max()),
        known=draws.known,
        base_check=draws.base_check,
        spread=spread,
    )


def means_under_q(
    names: tuple[str, ...], mean: Array, spread: Array, n: int
) -> dict[Key, Estimate]:
    """Return the means over n draws by name, from `Columns.over_all`; NaN if any draw has NaN."""
    known: list[Key] = [*map(Moment, names), "kl_base"]
    found: dict[Key, Estimate] = {}
    for name, value, squares in zip(known, mean.tolist(), spread.tolist(), strict=False):
        se = math.sqrt(squares) / n
        ends = (value, se, value - Z95 * se, value + Z95 * se)
        found[name] = Estimate(*(np.array([end]) for end in ends))
    return found
