"""A summary of draws: a few hundred kilobytes that give every estimate, and that merge.

It holds the sums of the trade-off by bins of the ratio, the largest ratios for the fit of the tail,
and the means under q. The summaries of shards merge into that of the run, so the estimates of a run
of any length need the memory of a few shards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array
from quasir.draws.base_check import BaseCheck
from quasir.draws.known import Known
from quasir.errors import InputError
from quasir.estimation.binned_ratios import BinnedRatios, largest_of
from quasir.estimation.bins import Bins
from quasir.estimation.columns import Basis, means_under_q, ratio_columns
from quasir.estimation.spread import Spread
from quasir.estimation.tail import tail_size

__all__ = ["Summary", "kept"]


def kept(n: int) -> int:
    """Return how many of the largest ratios a summary of n draws keeps.

    The tail of a run of N draws has 3 sqrt(N) ratios (94,868 for N = 10^9). A share n/N of them is
    expected among n draws: at most 3 sqrt(n). A tenth more, and 64, allow for chance, so that no
    ratio of the merged tail is missing. If one may be, `Summary.tail_is_whole` is False.
    """
    return math.ceil(1.1 * tail_size(n)) + 64


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A summary of draws.

    Attributes
    ----------
    n : int
        All draws, also those with P(x) = 0.
    names, boolean : tuple
        For each feature: its name, and whether it is 0 or 1 wherever P(x) > 0.
    has_base : bool
        Whether log_base is known; the last column is then the base's.
    bins : Bins
    low_shift, high_shift : array (K,)
        The number subtracted from each column before it was summed over L and over H.
    mean, spread : array (K,)
        The mean of each column over all draws, and the sum of squared deviations from it.
    log_w, often : array
        The largest log ratios, ascending and without repeats, and how often each was drawn.
    whole_above : float
        No log ratio at or above this is missing from `log_w`.

    Examples
    --------
    >>> log_p, log_q = np.log([0.5, 0.2, 0.3]), np.log([0.3, 0.3, 0.4])
    >>> one = Summary.of(log_p[:2], log_q[:2], features={"first": np.array([True, False])})
    >>> two = Summary.of(log_p[2:], log_q[2:], features={"first": np.array([False])})
    >>> both = Summary.merged([one, two])
    >>> both.n, both.bins.count.sum()
    (3, np.float64(3.0))
    """

    n: int
    names: tuple[str, ...]
    boolean: tuple[bool, ...]
    has_base: bool
    bins: Bins
    low_shift: Array
    high_shift: Array
    mean: Array
    spread: Array
    log_w: Array
    often: NDArray[np.int64]
    whole_above: float

    @classmethod
    def of(
        cls,
        log_p: Array,
        log_q: Array,
        log_base: Array | None = None,
        features: Mapping[str, NDArray[Any]] | None = None,
        keep: int | None = None,
        fineness: int | None = None,
    ) -> Summary:
        """Summarise draws by their scores.

        Parameters
        ----------
        log_p, log_q, log_base, features
            As in `Draws`.
        keep : int, optional
            How many of the largest ratios to keep; by default `kept(n)`.
        fineness : int, optional
            That of the bins; by default the finest that needs at most `MOST_BINS`.
        """
        columns = ratio_columns(log_p, log_q, log_base, features)
        possible = columns.log_ratio > -np.inf
        everything = bool(possible.all())

        def seen(column: Array) -> Array:
            return column if everything else column[possible]

        log_w = seen(columns.log_ratio)
        low, high = (list(map(seen, each)) for each in (columns.low, columns.high))
        bins = Bins.of(log_w, low, high, fineness)
        keep = kept(len(log_p)) if keep is None else keep
        top = log_w[log_w > bins.above(keep)]
        largest, often, whole_above = _largest(top, np.ones(len(top), np.int64), keep)
        if len(top) < len(log_w):
            whole_above = float(largest[0])
        mean, spread = columns.over_all()
        return cls(
            n=len(log_p),
            names=columns.names,
            boolean=columns.boolean,
            has_base=columns.has_base,
            bins=bins,
            low_shift=columns.low_shift,
            high_shift=columns.high_shift,
            mean=mean,
            spread=spread,
            log_w=largest,
            often=often,
            whole_above=whole_above,
        )

    @classmethod
    def merged(cls, parts: Sequence[Summary], keep: int | None = None) -> Summary:
        """Return the summary of the draws of all the parts.

        `keep` is how many of the largest ratios to keep, by default `kept(n)`.
        """
        first = parts[0]
        if len(parts) == 1:
            return first
        for part in parts[1:]:
            if (part.names, part.has_base) != (first.names, first.has_base):
                raise InputError(
                    f"summaries of other columns do not merge: {first.names} and {part.names}, "
                    f"with a base: {first.has_base} and {part.has_base}."
                )
        n = sum(part.n for part in parts)
        log_max = max(float(part.log_w[-1]) if len(part.log_w) else -np.inf for part in parts)
        most = max(parts, key=lambda part: len(part.bins))
        low_shift = most.low_shift.copy()
        if first.has_base and log_max > -np.inf:
            low_shift[-1] = log_max
        bins = Bins.merged([part._shifted(low_shift, most.high_shift).bins for part in parts])
        # Chan, Golub and LeVeque (1983): add the spreads of the parts and that of their means.
        weights = np.array([part.n for part in parts])[:, None] / n
        means = np.stack([part.mean for part in parts])
        mean = (weights * means).sum(axis=0)
        spread = np.stack([part.spread for part in parts]).sum(axis=0)
        spread = spread + n * (weights * (means - mean) ** 2).sum(axis=0)
        log_w, often, whole_above = _largest(
            np.concatenate([part.log_w for part in parts]),
            np.concatenate([part.often for part in parts]),
            kept(n) if keep is None else keep,
        )
        return cls(
            n=n,
            names=first.names,
            boolean=tuple(
                all(each) for each in zip(*(part.boolean for part in parts), strict=True)
            ),
            has_base=first.has_base,
            bins=bins,
            low_shift=low_shift,
            high_shift=most.high_shift,
            mean=mean,
            spread=spread,
            log_w=log_w,
            often=often,
            whole_above=max(whole_above, *(part.whole_above for part in parts)),
        )

    def _shifted(self, low_shift: Array, high_shift: Array) -> Summary:
        if not len(low_shift):
            return self
        bins = self.bins.shifted(self.low_shift - low_shift, self.high_shift - high_shift)
        return replace(self, bins=bins, low_shift=low_shift, high_shift=high_shift)

    @property
    def tail_is_whole(self) -> bool:
        """Whether no ratio is missing that the fit of the tail needs.

        One may be missing where a part has far more than its share of the largest ratios, for
        example if draws were saved in the order of their ratios.
        """
        return self.tail_begins >= self.whole_above

    @property
    def tail_begins(self) -> float:
        """The smallest log ratio that the fit of the tail needs, among those kept."""
        largest = largest_of(self.log_w, self.often, tail_size(self.n) + 1)
        return float(largest[0]) if len(largest) > tail_size(self.n) else -np.inf

    def basis(
        self,
        doubts: tuple[str, ...] = (),
        known: Known | None = None,
        base_check: BaseCheck | None = None,
    ) -> Basis:
        """Return the input of an `Evaluator`; the arguments are what no draw of q shows."""
        known = known or Known()
        features = len(self.names)
        shift = np.where(self.boolean, 0.0, self.low_shift[:features])
        low, high = self.low_shift.copy(), self.high_shift.copy()
        low[:features] = high[:features] = shift
        bins = self._shifted(low, high).bins
        return Basis(
            ratios=BinnedRatios(self.n, bins, self.log_w, self.often),
            names=self.names,
            boolean=self.boolean,
            shift=shift,
            has_base=self.has_base,
            means_of_q=lambda: means_under_q(self.names, self.mean, self.spread, self.n),
            doubts=doubts,
            known=known,
            base_check=base_check,
            spread=lambda: self.spread_of(known.bounds),
        )

    def spread_of(self, bounds: Mapping[str, tuple[float, float]]) -> Spread:
        """Return the draws in the form that promises are made from."""
        log_max = float(self.log_w[-1]) if len(self.log_w) else -math.inf
        return Spread.of_bins(
            self.n,
            self.bins,
            log_max,
            names=self.names,
            low_shift=self.low_shift,
            high_shift=self.high_shift,
            bounds=bounds,
        )


def _largest(
    log_w: Array, often: NDArray[np.int64], keep: int
) -> tuple[Array, NDArray[np.int64], float]:
    """Return the largest values without repeats, how often each occurs, and `Summary.whole_above`.

    At least `keep` draws are kept; the smallest value kept counts all its draws.
    """
    values, places = np.unique(log_w, return_inverse=True)
    counts = np.bincount(places, often, len(values)).astype(np.int64)
    ahead = np.cumsum(counts[::-1])[::-1] - counts
    enough = ahead < keep
    whole_above = -math.inf if enough.all() else float(values[enough][0])
    return values[enough], counts[enough], whole_above
