"""A summary of draws: a few hundred kilobytes from which every estimate can be made, and merged.

It holds the sums of the trade-off by bins of the ratio, the largest ratios for the fit of the tail,
and the means under q. Summaries of shards add up to the summary of the run, so a run of any length
is estimated in the memory of one shard.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array
from quasir.errors import InputError
from quasir.estimation.binned_ratios import BinnedRatios, largest_of
from quasir.estimation.bins import Bins
from quasir.estimation.columns import Basis, columns_of, means_under_q
from quasir.estimation.tail import tail_size

__all__ = ["Summary", "kept"]


def kept(n: int) -> int:
    """Return how many of the largest ratios a summary of n draws keeps.

    The tail of N draws has 3 sqrt(N) ratios, of which n N-ths are expected among n: at most
    3 sqrt(n). A tenth more and 64 allow for chance, so that the merged tail is whole; for a run of
    10^9 draws it is 94,868 ratios. Where it is not, `Summary.tail_is_whole` says so.
    """
    return math.ceil(1.1 * tail_size(n)) + 64


@dataclass(frozen=True)
class Summary:
    """What is kept of some draws.

    Attributes
    ----------
    n : int
        Draws, those with P(x) = 0 included.
    names, boolean : tuple
        Of each feature: its name, and whether it was 0 or 1 wherever P(x) > 0.
    has_base : bool
        Whether log_base was known; the last column is then the base's.
    bins : Bins
    low_shift, high_shift : array (K,)
        What was taken off each column before it was summed, over L and over H.
    mean, spread : array (K,)
        Of each column over all draws: the mean, and the sum of squared deviations from it.
    log_w, often : array
        The largest log ratios, ascending, each once, and how often each was drawn.
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
            How many of the largest ratios; by default as many as `kept` says.
        fineness : int, optional
            Of the bins; by default the finest that needs at most `MOST_BINS`.
        """
        columns = columns_of(log_p, log_q, log_base, features)
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
        return cls(
            len(log_p),
            columns.names,
            columns.boolean,
            columns.has_base,
            bins,
            columns.low_shift,
            columns.high_shift,
            *columns.over_all(),
            largest,
            often,
            whole_above,
        )

    @classmethod
    def merged(cls, parts: Sequence[Summary], keep: int | None = None) -> Summary:
        """Return the summary of all the draws that the parts are of.

        `keep` is how many of the largest ratios, by default as many as `kept` says.
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
        # Chan, Golub and LeVeque (1983): a spread is those of the parts, and that of their means.
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
            n,
            first.names,
            tuple(all(each) for each in zip(*(part.boolean for part in parts), strict=True)),
            first.has_base,
            bins,
            low_shift,
            most.high_shift,
            mean,
            spread,
            log_w,
            often,
            max(whole_above, *(part.whole_above for part in parts)),
        )

    def _shifted(self, low_shift: Array, high_shift: Array) -> Summary:
        if not len(low_shift):
            return self
        bins = self.bins.shifted(self.low_shift - low_shift, self.high_shift - high_shift)
        return replace(self, bins=bins, low_shift=low_shift, high_shift=high_shift)

    @property
    def tail_is_whole(self) -> bool:
        """Whether the ratios that the tail is fitted to are all there.

        They are unless the draws of a part had far more than their share of the largest, as where
        draws were saved in the order of their ratios.
        """
        return self.tail_begins >= self.whole_above

    @property
    def tail_begins(self) -> float:
        """The smallest log ratio that the tail's fit needs, by those that are known."""
        largest = largest_of(self.log_w, self.often, tail_size(self.n) + 1)
        return float(largest[0]) if len(largest) > tail_size(self.n) else -np.inf

    def basis(self, doubts: tuple[str, ...] = (), log_ceiling: float = math.inf) -> Basis:
        """Return what an `Evaluator` needs; what no ratio shows is told."""
        features = len(self.names)
        shift = np.where(self.boolean, 0.0, self.low_shift[:features])
        low, high = self.low_shift.copy(), self.high_shift.copy()
        low[:features] = high[:features] = shift
        bins = self._shifted(low, high).bins
        return Basis(
            BinnedRatios(self.n, bins, self.log_w, self.often),
            self.names,
            self.boolean,
            shift,
            self.has_base,
            lambda: means_under_q(self.names, self.mean, self.spread, self.n),
            doubts,
            log_ceiling,
        )


def _largest(
    log_w: Array, often: NDArray[np.int64], keep: int
) -> tuple[Array, NDArray[np.int64], float]:
    """Return the largest values, each once, how often each comes, and what none is missing above.

    At least `keep` draws are kept, the last value with all its draws.
    """
    values, places = np.unique(log_w, return_inverse=True)
    counts = np.bincount(places, often, len(values)).astype(np.int64)
    ahead = np.cumsum(counts[::-1])[::-1] - counts
    enough = ahead < keep
    whole_above = -math.inf if enough.all() else float(values[enough][0])
    return values[enough], counts[enough], whole_above
