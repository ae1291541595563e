"""Draws of the base, scored by the proposal: they show what draws of the proposal cannot."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from quasir.errors import StoreError

__all__ = ["BaseCheck", "seen_by_base"]

FAR = math.log(2.0)
"""A ratio more than twice the largest one seen is far above it."""
WORTH_SAYING = 0.01
"""Share of the target's mass above which the doubt is raised."""


@dataclass(frozen=True)
class BaseCheck:
    """Draws of the base that the target allows, scored by the proposal.

    Attributes
    ----------
    draws : int
        Of the base.
    log_ratio : tuple of float
        log P/q of those with P(x) > 0; infinite where q = 0.
    log_weight : tuple of float
        log P/a of the same.
    """

    draws: int
    log_ratio: tuple[float, ...]
    log_weight: tuple[float, ...]

    def share_above(self, log_ratio: float) -> tuple[float, int]:
        """Return the share of the target's mass above a ratio, and how many draws show it."""
        ratios = np.array(self.log_ratio)
        weights = np.array(self.log_weight)
        weights = np.exp(weights - weights.max(initial=-np.inf))
        above = ratios > log_ratio
        total = float(weights.sum())
        return (float(weights[above].sum()) / total if total else 0.0), int(above.sum())

    def doubts(self, largest: float) -> tuple[str, ...]:
        """Return what they show, `largest` being the largest log ratio among the run's draws."""
        possible = len(self.log_ratio)
        share, count = self.share_above(np.finfo(np.float64).max)
        if count:
            return (
                f"{count:,} of {possible:,} draws of the base that the target allows have q = 0: "
                f"about {share:.2g} of the target's mass is out of the proposal's reach. TVD "
                "cannot fall below that, KL is infinite, and no other draw shows it. Mix in the "
                "base (Mixture).",
            )
        share, count = self.share_above(largest + FAR)
        if share > WORTH_SAYING:
            return (
                f"{count:,} of {possible:,} draws of the base that the target allows have ratios "
                f"of more than twice the largest that was drawn: about {share:.2g} of the "
                "target's mass lies where the proposal hardly ever goes, so TVD, KL and the bound "
                "are larger than they seem. Mix in the base (Mixture), or draw many more.",
            )
        return ()

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any] | None) -> BaseCheck | None:
        """Read what `to_dict` wrote; None where nothing was checked.

        Raises
        ------
        StoreError
            If it is not what `to_dict` writes.
        """
        if facts is None:
            return None
        try:
            ratios = tuple(math.inf if x is None else float(x) for x in facts["log_ratio"])
            weights = tuple(float(x) for x in facts["log_weight"])
            if len(ratios) != len(weights):
                raise ValueError("its columns have different lengths")
            return cls(int(facts["draws"]), ratios, weights)
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(
                f"the manifest's base_check cannot be read ({error}): it was edited or damaged."
            ) from error

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary; an infinite ratio is None."""
        ratios = [x if math.isfinite(x) else None for x in self.log_ratio]
        return {"draws": self.draws, "log_ratio": ratios, "log_weight": list(self.log_weight)}


def seen_by_base(check: BaseCheck | None, largest: float) -> tuple[str, ...]:
    """Return the doubts that draws of the base raise, if there are any."""
    return () if check is None else check.doubts(largest)
