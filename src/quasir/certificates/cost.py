"""What a wish costs: an interval for the acceptance rate at the beta that truly meets it.

The beta that an estimate chooses is not the one that truly meets the wish, and the interval of its
acceptance rate is for that beta. Here the uncertainty of the choice is included. Where the interval
of the distance contains the wish, beta may be the right one. The acceptance rate falls with beta,
so the ends of the cost are those of its intervals at the smallest and the largest of these betas.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from quasir.certificates.evaluator import Evaluator
from quasir.estimation.estimate import Estimate

__all__ = ["cost_of"]

LEVELS, ROUNDS = 16, 4
"""Levels between two ends, and how often the search is repeated closer to the solution."""
PAST = 12.0
"""Nats past the largest ratio that are searched, if no ceiling is known."""


def cost_of(evaluator: Evaluator, name: str, wanted: float, value: float) -> Estimate:
    """Return the acceptance rate at which a distance is `wanted`; `value` is the estimate of it.

    Parameters
    ----------
    evaluator : Evaluator
    name : str
        The distance: tvd, tvd_bound or kl.
    wanted : float
    value : float
    """
    ratios, ceiling = evaluator.ratios, evaluator.tail.log_ceiling
    top = ceiling if ceiling < math.inf else ratios.log_max + PAST
    ends = np.array([ratios.level(0), top])
    for _ in range(ROUNDS):
        parts = [np.linspace(*pair, LEVELS) for pair in pairwise(np.unique(ends))]
        levels = np.unique(ratios.snap(np.concatenate([ends, *parts])))
        points = evaluator.points(levels)
        distance, rate = points.estimates[name], points.estimates["acceptance_rate"]
        within = np.flatnonzero(distance.low <= wanted)
        above = np.flatnonzero(distance.high >= wanted)
        # One level further at each side: between two levels nothing is known yet.
        first = max(int(within[0]) - 1, 0) if len(within) else len(levels) - 1
        last = min(int(above[-1]) + 1, len(levels) - 1) if len(above) else 0
        around = [first, min(first + 1, len(levels) - 1), max(last - 1, 0), last]
        ends = levels[around]
    # At the last level nothing shows that the wish is met, unless it is the ceiling.
    unmet = levels[last] >= top and not distance.high[last] <= wanted
    low = 0.0 if unmet else float(rate.low[last])
    return Estimate(value, math.nan, min(low, value), max(float(rate.high[first]), value))
