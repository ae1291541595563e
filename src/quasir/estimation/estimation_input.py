"""The input of the estimates: the ratios, with columns for the features and the base.

The draws may be in memory, sorted by their ratio, or on disk, summed in bins
(`quasir.estimation.summary`). `quasir.certificates.evaluator.Evaluator` makes the same estimates
from both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array
from quasir.draws.acceptance import log_ratio_of
from quasir.draws.ceiling import RatioBounds
from quasir.draws.draws import Draws
from quasir.draws.support import BaseCheck, seen_by_base
from quasir.estimation.binned_draws import BinnedDraws
from quasir.estimation.binned_ratios import Ratios
from quasir.estimation.estimate import Z95, Estimate
from quasir.estimation.quantities import Key, Moment
from quasir.estimation.ratios import SortedRatios


@dataclass(frozen=True, kw_only=True)
class EstimationInput:
    """The input of an `Evaluator`; the two kinds are `SortedDraws` and `SummarisedDraws`."""

    ratios: Ratios  # with a pair of columns for each feature, and one for the base
    names: tuple[str, ...]  # of the features
    boolean: tuple[bool, ...]  # whether each feature is always 0 or 1
    shift: Array  # what was subtracted from each feature before it was summed
    has_base: bool  # whether the last pair is log P/a - log M (over L) and log q/a (over H)
    warnings: tuple[str, ...]  # that come with the draws: a proposal that cannot reach all of P
    known: RatioBounds  # what is known about ratios that were not drawn
    base_check: BaseCheck | None  # draws of the base, which may bound Z

    @cached_property
    def binned(self) -> BinnedDraws:
        """The draws in the form that guarantees are made from."""
        raise NotImplementedError

    def means_of_q(self) -> dict[Key, Estimate]:
        """Return the means over all draws, also those with P(x) = 0."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class SortedDraws(EstimationInput):
    """Draws in memory, sorted by their ratio."""

    ratios: SortedRatios
    draws: Draws

    @classmethod
    def of(cls, draws: Draws) -> SortedDraws:
        """Sort draws; their items are not kept."""
        columns = ratio_columns(draws.log_p, draws.log_q, draws.log_base, draws.features)
        return cls(
            ratios=SortedRatios(columns.log_ratio, columns.low, columns.high),
            names=columns.names,
            boolean=columns.boolean,
            shift=columns.low_shift[: len(columns.names)],
            has_base=columns.has_base,
            warnings=draws.warnings + seen_by_base(draws.base_check, columns.log_ratio.max()),
            known=draws.known,
            base_check=draws.base_check,
            draws=replace(draws, items=None),
        )

    @cached_property
    def binned(self) -> BinnedDraws:
        """The draws in the form that guarantees are made from."""
        moved = zip(self.names, self.ratios.columns, self.shift, strict=False)
        features = {name: column + by for name, column, by in moved}
        return BinnedDraws.of_sorted(
            self.ratios.n, self.ratios.log_w, features=features, bounds=self.known.bounds
        )

    def means_of_q(self) -> dict[Key, Estimate]:
        """Return the means over all draws; the columns are large, and so are computed again."""
        d = self.draws
        columns = ratio_columns(d.log_p, d.log_q, d.log_base, d.features)
        return means_under_q(columns.names, *columns.over_all(), len(d))


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
