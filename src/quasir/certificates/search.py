"""The search for the beta that meets a wish: exact on sorted ratios, at bin edges on binned."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from quasir.core.types import Array
from quasir.estimation.quantities import QUANTITIES
from quasir.estimation.ratios import Ratios
from quasir.estimation.tail import Tail

__all__ = ["ENOUGH_ABOVE", "largest_accepting", "smallest_meeting", "what_it_takes"]

ENOUGH_ABOVE = 10
"""A level is within reach of the draws if at least this many ratios are at or above it."""
AT_ONCE = 32
"""Levels between two ratios that are tried at once."""


def largest_accepting(ratios: Ratios, rate: float) -> float | None:
    """Return the largest log beta with an acceptance rate of at least `rate`, or None.

    AR = (sum over L of w/beta + |H|)/N (Eq. 2, `eq:ar`) falls with beta. Between two neighbouring
    ratios only beta varies, so there the solution is beta = sum over L of w/(N rate - |H|).
    """
    n, size = ratios.n, ratios.n_possible
    if size == 0 or size < rate * n * (1 - 1e-12):
        return None

    def accepts(i: int) -> bool:
        level = ratios.level(i)
        s = ratios.at(np.array([level]))
        low = float(s.low[0, 0] * np.exp(s.log_unit[0] - level))
        return low + float(s.n_high[0]) >= rate * n

    first, last = -1, ratios.n_levels  # accepts(first), not accepts(last)
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (middle, last) if accepts(middle) else (first, middle)
    if first < 0:
        return ratios.level(0)
    level = ratios.level(first)
    s = ratios.at(np.array([level]))
    room = rate * n - float(s.n_high[0])
    past_all = last == ratios.n_levels
    if room <= 0 or not (ratios.exact_between or past_all):
        return level
    solved = float(s.log_unit[0] + np.log(s.low[0, 0]) - np.log(room))
    found = min(max(solved, level), np.inf if past_all else ratios.level(last))
    return float(ratios.snap(np.array([found]), np.floor)[0])


def smallest_meeting(
    ratios: Ratios, estimated: Callable[[Array], Array], wanted: float
) -> float | None:
    """Return the smallest log beta at which an estimate is at most `wanted`, or None.

    The estimate must fall with beta. None means that no beta up to the `ENOUGH_ABOVE`-th largest
    ratio is enough.
    """

    def meets(log_beta: float) -> bool:
        return bool(estimated(np.array([log_beta]))[0] <= wanted)

    first, last = -1, ratios.reach(ENOUGH_ABOVE)
    if last < 0 or not meets(ratios.level(last)):
        return None
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (first, middle) if meets(ratios.level(middle)) else (middle, last)
    high = ratios.level(last)
    if first < 0 or not ratios.exact_between:
        return high
    low = ratios.level(first)
    while True:
        # Many levels at once cost little more than one.
        between = np.linspace(low, high, AT_ONCE + 2)[1:-1]
        between = between[(between > low) & (between < high)]
        if not len(between):
            return high
        met = np.append(np.flatnonzero(estimated(between) <= wanted), len(between))[0]
        if met > 0:
            low = float(between[met - 1])
        if met < len(between):
            high = float(between[met])


def what_it_takes(name: str, wanted: float, tail: Tail, log_z: float) -> str | None:
    """Return in words how many draws the wish needs by the fitted tail, or None if unknown."""
    if not tail.fitted or tail.k >= 1:
        return None
    which = QUANTITIES[name].beyond
    assert which is not None
    reach = tail.log_max + np.linspace(0.0, 25.0, 2501)
    beyond = [tail.above(log_beta) for log_beta in reach.tolist()]
    left = np.array([getattr(part, which) for part in beyond]) * math.exp(tail.log_max - log_z)
    share = np.array([part.share for part in beyond])
    meets = np.flatnonzero((left <= wanted) & (share > 0))
    if not len(meets):
        return None
    draws = max(ENOUGH_ABOVE / share[meets[0]], 2 * tail.n)
    rate = math.exp(min(log_z - reach[meets[0]], 0.0))
    return (
        f"By the tail fitted to the largest ratios (Pareto k = {tail.k:.2f}), about {draws:.1e} "
        f"draws would show it, at an acceptance rate near {rate:.1e}."
    )
