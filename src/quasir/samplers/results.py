"""What a sampler returns whose law is p only in the limit: it cannot be scored, nor certified."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.items import Coded, Column
from quasir.core.types import Array, Items
from quasir.errors import BudgetExceeded

__all__ = ["Approximate", "Chain", "count_distinct", "ran_out"]

STUCK = 0.1
"""A chain that spent more than this share of its steps on one state is doubted,"""
STAYED = 20
"""if they were more than so many: a short chain may well stay for a few steps."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Approximate:
    """Samples of a law that tends to p, at a distance that is not estimated.

    Attributes
    ----------
    items : column of items
        Of stored draws without items: their places among the draws.
    log_p : array
        Unnormalised log P(x).
    log_q : array or None
        log q(x); None where the samples are no draws from q.
    proposals : int
        How many were proposed to find them.
    distance : str
        What is known of the distance to p: "unknown: ..." with the reason, or a bound.
    features : dict of arrays
        A column for each feature of the target.
    doubts : tuple of str
        What should be known of them.
    """

    items: Items
    log_p: Array
    log_q: Array | None = None
    proposals: int
    distance: str
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

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: {len(self):,} samples, {self.distinct:,} distinct, from "
            f"{self.proposals:,} proposals; distance to p {self.distance.split(':')[0]}>"
        )


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Chain(Approximate):
    """Samples of a Markov chain whose stationary law is p.

    Attributes
    ----------
    steps, moves : int
        Steps made, burn-in included, and how many of them led to another proposal.
    independent : bool
        Whether each sample has a chain of its own.
    tvd_bound : float
        TVD(p, law of each sample) is at most this; 1, which is no news, where nothing is known.
    """

    steps: int
    moves: int
    independent: bool
    tvd_bound: float = 1.0

    @property
    def move_rate(self) -> float:
        """Moves per step: what MCMC calls the acceptance rate."""
        return self.moves / self.steps if self.steps else math.nan


def stuck(longest_stay: int, steps: int) -> tuple[str, ...]:
    """Return the doubt about a chain that stayed on one state, or none.

    Examples
    --------
    >>> stuck(3, 1000)
    ()
    """
    if longest_stay <= max(STUCK * steps, STAYED):
        return ()
    return (
        f"The chain stayed on one state for {longest_stay:,} of {steps:,} steps: its samples rest "
        "on few states. Run it longer, reset it for each sample, or use a better proposal.",
    )


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


def ran_out(samples: Approximate, n: int, source: str) -> BudgetExceeded:
    """Return the error for draws that gave too few samples, with those found."""
    found = len(samples)
    rate = f"about {n / found:.2g} times as many" if found else "Nothing was found: use more"
    return BudgetExceeded(
        f"{samples.proposals:,} {source} gave {found:,} of {n:,} samples. {rate} would do, or "
        "less burn-in, thinning or resetting, or a proposal closer to the target. The samples "
        "found are in this error's .samples.",
        samples,
    )
