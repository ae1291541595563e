"""Betting: evidence that a mean is below 0, which holds at any number of draws, at any look.

Let x <= hi for every draw. If E[x] >= 0, the wealth

    W_n = sum_j pi_j prod_{i <= n} (1 - b_j x_i/hi)

is a supermartingale with W_0 = 1 and no negative value, whatever the fractions 0 < b_j < 1 and the
shares pi_j are, as long as they do not depend on the draws. By Ville's inequality it ever reaches
1/alpha with probability alpha at most. So W_n >= 1/alpha, at whichever n, shows that E[x] < 0. It
does not depend on the order of the draws. (Waudby-Smith and Ramdas, 2024, "Estimating means of
bounded random variables by betting"; docs/promises.md has the proofs.)
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array

__all__ = ["FRACTIONS", "LOG_SHARES", "least_shown", "log_wealth"]

FRACTIONS = 0.95 * 1.4 ** -np.arange(24.0)
"""The fractions b_j, from 0.95 to 0.0004.

The best one is about hi/sd(x) times sqrt(2 log(1/alpha)/N). One of these is within a factor of
sqrt(1.4) of it up to N = 10^7 at least, and then loses 3 % of the log wealth.
"""
LOG_SHARES = -np.log(np.arange(1.0, 25.0) * np.arange(2.0, 26.0) * (1 - 1 / 25))
"""The logs of the shares pi_j, proportional to 1/((j + 1)(j + 2)); they sum to 1."""

AT_ONCE = 2**18
"""How many logarithms are computed at once, for the sake of the cache."""
CLOSE = 2e-4
"""How close to the least parameter shown the search gets, as a share of its distance."""


def log_wealth(bets: Array, weights: Array) -> Array:
    """Return log W for rows of draws.

    Parameters
    ----------
    bets : array (Q, A)
        x/hi for each row and distinct draw, at most 1.
    weights : array (Q, A)
        How many draws there are of each.

    Examples
    --------
    >>> log_wealth(np.array([[-1.0, 1.0]]), np.array([[9.0, 1.0]])).round(3)
    array([2.946])
    """
    out = np.empty(len(bets))
    step = max(AT_ONCE // max(bets.shape[1] * len(FRACTIONS), 1), 1)
    for start in range(0, len(bets), step):
        part = slice(start, start + step)
        factors = bets[part, None, :] * -FRACTIONS[:, None]
        factors += 1.0
        np.log(factors, out=factors)
        growth = np.einsum("qja,qa->qj", factors, weights[part]) + LOG_SHARES
        most = growth.max(axis=1)
        out[part] = most + np.log(np.exp(growth - most[:, None]).sum(axis=1))
    return out


def least_shown(
    log_wealth_at: Callable[[Array, NDArray[np.intp]], Array],
    start: Array,
    end: Array,
    alpha: float,
) -> Array:
    """Return, for each row, a parameter that is shown, and hardly further from `start` than needed.

    The wealth must rise from `start`, where it is at most 1, to `end`, where nothing need be shown.
    Every parameter returned is `end`, or one at which the wealth was computed and was enough.

    Parameters
    ----------
    log_wealth_at : callable
        Given parameters and the rows they are for, returns log W.
    start, end : array (Q,)
        `end` may be above or below `start`.
    alpha : float
        1 - confidence.
    """
    need = math.sqrt(-math.log(alpha))
    way = end - start
    # Distances from start, as shares of the way: nothing is shown at a, the claim holds at b.
    a, b = np.zeros(len(start)), np.ones(len(start))
    value_a, value_b = np.full(len(start), -need), np.full(len(start), np.nan)
    # Where the start is the end up to rounding, nothing lies between them.
    rows = np.flatnonzero(np.abs(way) > 1e-12 * np.maximum(np.abs(start), np.abs(end)))
    last = np.zeros(len(start))
    for round_ in range(80):
        rows = rows[b[rows] - a[rows] > CLOSE * b[rows]]
        if not len(rows):
            break
        lower, upper = a[rows], b[rows]
        middle = np.where(lower > 0, np.sqrt(lower * upper), upper / 16)
        # The root of the wealth's log is nearly straight: follow it, but not every time.
        f, g = value_a[rows], value_b[rows]
        line = lower + (upper - lower) * f / (f - g)
        margin = 0.4 * CLOSE * upper
        follow = np.isfinite(line) & (round_ % 4 != 3)
        at = np.where(follow, np.clip(line, lower + margin, upper - margin), middle)
        log_w = log_wealth_at(start[rows] + way[rows] * at, rows)
        value = np.sqrt(np.maximum(log_w, 0.0)) - need
        shown = log_w >= -math.log(alpha)
        up, down = rows[shown], rows[~shown]
        b[up], value_b[up] = at[shown], value[shown]
        a[down], value_a[down] = at[~shown], value[~shown]
        # The Illinois rule: an end that stays twice counts half.
        side = np.where(shown, 1.0, -1.0)
        again = last[rows] == side
        value_a[rows[again & shown]] *= 0.5
        value_b[rows[again & ~shown]] *= 0.5
        last[rows] = side
    found: Array = np.where(b == 1, end, start + way * b)
    return found
