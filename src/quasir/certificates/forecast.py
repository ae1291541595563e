"""How many draws a promise needs: the promise that more draws like these would give.

The log of a bet's wealth is a sum over the draws, so N draws like these n have about N/n of its
growth. The promised beta then falls towards the one that truly meets the wish.
"""

from __future__ import annotations

import math

import numpy as np

from quasir.certificates.evaluator import Evaluator
from quasir.estimation.promise import promised_level

__all__ = ["draws_for", "promised_rate"]

MOST = 1e15
"""More draws than this are not worth naming."""


def promised_rate(
    evaluator: Evaluator, name: str, wanted: float, confidence: float, draws: float
) -> float:
    """Return the acceptance rate at the beta that this many draws would promise; 0 for none."""
    spread = evaluator.spread.scaled(draws / evaluator.n)
    ground = evaluator.ground(confidence)
    level = promised_level(spread, name, wanted, ground, confidence=confidence)
    if level is None:
        return 0.0
    level = max(level, evaluator.ratios.level(0))
    return float(evaluator.values("acceptance_rate", np.array([level]))[0])


def draws_for(
    evaluator: Evaluator, name: str, wanted: float, confidence: float, rate: float
) -> float:
    """Return how many draws promise the wish at this acceptance rate; infinite if none do."""

    def enough(log_draws: float) -> bool:
        draws = math.exp(log_draws)
        return promised_rate(evaluator, name, wanted, confidence, draws) >= rate

    low, high = 0.0, math.log(MOST)
    if not enough(high):
        return math.inf
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return math.exp(high)
