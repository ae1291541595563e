"""What a sampler returns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from quasir.core.formatting import level_text
from quasir.core.types import Array, Items

__all__ = ["Samples"]


@dataclass(frozen=True, eq=False)
class Samples:
    """Accepted items, in the order they were drawn.

    Attributes
    ----------
    items : column of items
    log_p_beta : array
        log p_beta(x), Eq. 1: normalised by `log_z_beta`.
    log_p, log_q : array
        Unnormalised log P(x), and log q(x).
    log_beta : float
        The level they were accepted at.
    log_z_beta : float
        Log of Z_beta: exact where the proposal's support can be listed, else estimated.
    proposals : int
        How many were proposed to find them.
    features : dict of arrays
        A column for each feature of the target.
    doubts : tuple of str
        What should be known of them.
    """

    items: Items
    log_p_beta: Array
    log_p: Array
    log_q: Array
    log_beta: float
    log_z_beta: float
    proposals: int
    doubts: tuple[str, ...] = ()
    features: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.log_q)

    @property
    def beta(self) -> float:
        """The level; where it is out of a float's range, see `log_beta`."""
        return math.exp(self.log_beta) if self.log_beta < 709.7 else math.inf

    @property
    def acceptance_rate(self) -> float:
        """Samples per proposal."""
        return len(self) / self.proposals if self.proposals else math.nan

    @property
    def distance(self) -> str:
        """What is known of the distance of their law to p."""
        return (
            f"TVD(p, p_beta) and KL(p, p_beta) at beta = {level_text(self.log_beta)} are estimated "
            "by quasir.tradeoff from draws"
        )

    def __repr__(self) -> str:
        return (
            f"<Samples: {len(self):,} accepted of {self.proposals:,} proposed at beta = "
            f"{level_text(self.log_beta)}>"
        )
