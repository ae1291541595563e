"""What samplers return: samples, and what is known about their law."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quasir.core.arguments import exp_or_inf
from quasir.core.formatting import level_text
from quasir.core.items import Coded, Column
from quasir.core.types import Array, Items
from quasir.errors import InputError
from quasir.estimation.estimate import Z95, Estimate

__all__ = [
    "ApproximateSamples",
    "ChainSamples",
    "ClimbingSamples",
    "SampleSet",
    "Samples",
    "WeightedSamples",
    "count_distinct",
]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SampleSet:
    """What the results of all samplers have in common.

    Attributes
    ----------
    items : column of items
        If the stored draws have no items: the indices of the draws.
    log_p : array
        Unnormalised log P(x).
    log_q : array or None
        log q(x); None if the samples are not draws from q.
    proposals : int
        How many proposals were made for them.
    features : dict of arrays
        A column for each feature of the target.
    doubts : tuple of str
        What is wrong with the samples, in words. Empty is good.
    """

    items: Items
    log_p: Array
    log_q: Array | None = None
    proposals: int
    features: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.log_p)

    @property
    def acceptance_rate(self) -> float:
        """Samples per proposal, as the paper counts for all samplers (appendix F)."""
        return len(self) / self.proposals if self.proposals else math.nan

    @property
    def distinct(self) -> int:
        """How many of the samples are different."""
        return count_distinct(self.items)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Samples(SampleSet):
    """I.i.d. samples of p_beta: accepted items, in the order they were drawn.

    Attributes
    ----------
    log_p_beta : array
        log p_beta(x), Eq. 1: normalised by `log_z_beta`.
    log_beta : float
        The level they were accepted at.
    log_z_beta : float
        Log of Z_beta: exact if the proposal's support can be listed, else estimated.
    """

    log_p_beta: Array
    log_beta: float
    log_z_beta: float

    @property
    def beta(self) -> float:
        """The level; if it is out of a float's range, see `log_beta`."""
        return exp_or_inf(self.log_beta)

    @property
    def distance(self) -> str:
        """What is known about the distance of their law to p."""
        return (
            f"TVD(p, p_beta) and KL(p, p_beta) at beta = {level_text(self.log_beta)} are estimated "
            "by quasir.tradeoff from draws"
        )

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: {len(self):,} accepted of {self.proposals:,} proposed at "
            f"beta = {level_text(self.log_beta)}>"
        )


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class WeightedSamples(Samples):
    """Samples of p_beta with the weights of p over p_beta.

    Attributes
    ----------
    log_weight : array
        log max(1, P(x)/(beta q(x))): the weight up to a constant, which cancels in `mean`.
    """

    log_weight: Array

    def mean(self, values: ArrayLike) -> Estimate:
        """Return the mean under p of a column of values, one for each sample.

        It is self-normalised: consistent, with a bias that falls as 1/n.

        Examples
        --------
        >>> import quasir as qr
        >>> target, proposal = qr.Table({"a": 0.5, "b": 0.5}), qr.Table({"a": 0.9, "b": 0.1})
        >>> samples = qr.RejectionControl(target, proposal, beta=1).sample(1000, seed=0)
        >>> print(samples.mean([item == "a" for item in samples.items]))
        0.5067 ± 0.021 [0.4647, 0.5486]
        """
        column = np.asarray(values, dtype=np.float64)
        if column.shape != (len(self),):
            raise InputError(
                f"values have shape {column.shape}, but there are {len(self)} samples: give one "
                "value for each."
            )
        if not len(self):
            return Estimate(math.nan, math.nan, -math.inf, math.inf)
        weight = np.exp(self.log_weight - self.log_weight.max())
        weight /= weight.sum()
        mean = float(weight @ column)
        se = float(np.sqrt((weight**2) @ (column - mean) ** 2))
        return Estimate(mean, se, mean - Z95 * se, mean + Z95 * se)

    @property
    def distance(self) -> str:
        """What is known about the distance to p: with the weights, it tends to 0."""
        return "0 as n grows, with the weights in log_weight; without them: " + super().distance


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ApproximateSamples(SampleSet):
    """Samples of a law that tends to p, at a distance that is not estimated.

    Attributes
    ----------
    distance : str
        What is known about the distance to p: "unknown: ..." with the reason, or a bound.
    """

    distance: str

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: {len(self):,} samples, {self.distinct:,} distinct, from "
            f"{self.proposals:,} proposals; distance to p {self.distance.split(':')[0]}>"
        )


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ClimbingSamples(ApproximateSamples):
    """Samples of rejection sampling with a beta that rose on the way.

    Attributes
    ----------
    log_betas : array
        The level that each sample was accepted at; it follows p_beta at that level.
    log_beta : float
        The largest ratio seen.
    """

    log_betas: Array
    log_beta: float


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ChainSamples(ApproximateSamples):
    """Samples of a Markov chain whose stationary law is p.

    Attributes
    ----------
    steps, moves : int
        Steps made, including burn-in, and how many of them moved the chain.
    independent : bool
        Whether each sample has a chain of its own.
    tvd_bound : float
        An upper bound on TVD(p, law of each sample); 1 if none is known.
    """

    steps: int
    moves: int
    independent: bool
    tvd_bound: float = 1.0

    @property
    def move_rate(self) -> float:
        """Moves per step: what MCMC calls the acceptance rate."""
        return self.moves / self.steps if self.steps else math.nan


def count_distinct(items: Items) -> int:
    """Return how many different items there are.

    Examples
    --------
    >>> count_distinct(np.array([[0, 1], [0, 1], [1, 1]]))
    2
    """
    if isinstance(items, Coded):
        return len({items.support[code] for code in np.unique(items.codes)})
    if isinstance(items, np.ndarray) and items.dtype != object:
        return len(np.unique(items, axis=0))
    if isinstance(items, Column) and hasattr(items, "token_ids"):
        return len({items.token_ids(i).tobytes() for i in range(len(items))})
    return len(set(items))
