"""Bounds that need no ceiling: acceptance rate, moments of bounded features, least lost and TVD.

What is averaged is bounded without one: min(w, beta) is. All hold at any number of draws, whenever
they are looked at. Levels are arrays of log beta; `alpha` is 1 - confidence of each bound by
itself. docs/promises.md has the proofs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array
from quasir.estimation.betting import least_shown, log_wealth
from quasir.estimation.spread import Spread

__all__ = [
    "acceptance_rate_at_least",
    "acceptance_rate_at_most",
    "lost_at_least",
    "moment_at_least",
    "moment_at_most",
    "tvd_at_least",
]

Rows = NDArray[np.intp]
FAR = 600.0
"""Nats between a level and the largest ratio that a float can bridge."""


def acceptance_rate_at_most(spread: Spread, log_beta: Array, *, alpha: float) -> Array:
    """Return upper bounds on the acceptance rate E[min(w/beta, 1)].

    At beta = M the acceptance rate is Z/M: with draws of the base, and b(x) for the ratios, this
    gives an upper bound on Z.

    Examples
    --------
    >>> spread = Spread.of_sorted(1000, np.log(np.full(500, 2.0)))
    >>> acceptance_rate_at_most(spread, np.log([1.0, 4.0]), alpha=0.025).round(3)
    array([0.559, 0.277])
    """
    cells = spread.capped(log_beta, rounded="up")
    y, weights = cells.w, cells.weights

    def log_w(rate: Array, rows: Rows) -> Array:
        rate = rate[:, None]
        return log_wealth((y[rows] - rate) / (1 - rate), weights[rows])

    return least_shown(log_w, _mean(y, weights, 1.0), np.ones(len(log_beta)), alpha)


def acceptance_rate_at_least(spread: Spread, log_beta: Array, *, alpha: float) -> Array:
    """Return lower bounds on the acceptance rate E[min(w/beta, 1)]."""
    cells = spread.capped(log_beta)
    y, weights = cells.w, cells.weights

    def log_w(rate: Array, rows: Rows) -> Array:
        return log_wealth(1 - _over(y[rows], rate), weights[rows])

    return least_shown(log_w, _mean(y, weights, 0.0), np.zeros(len(log_beta)), alpha)


def moment_at_most(spread: Spread, name: str, log_beta: Array, *, alpha: float) -> Array:
    """Return upper bounds on the mean of a bounded feature under p_beta.

    A draw of a feature between its bounds counts in part as one at the upper and in part as one at
    the lower bound, which loses its small variance but nothing else; a boolean feature loses none.
    """
    low, high = spread.bounds[name]
    ones, zeros = spread.rows(name)
    return low + (high - low) * _share_at_most(spread, ones, zeros, log_beta, alpha)


def moment_at_least(spread: Spread, name: str, log_beta: Array, *, alpha: float) -> Array:
    """Return lower bounds on the mean of a bounded feature under p_beta."""
    low, high = spread.bounds[name]
    ones, zeros = spread.rows(name)
    return high - (high - low) * _share_at_most(spread, zeros, ones, log_beta, alpha)


def _share_at_most(spread: Spread, row: int, other: int, log_beta: Array, alpha: float) -> Array:
    """Return upper bounds on the share of one row's draws in p_beta, beside those of the other."""
    # The wealth falls with v = min(w/beta, 1) on the row's draws, and rises with it on the others.
    cells = spread.capped(log_beta, row, rounded="up")
    v, for_ = cells.w, cells.weights
    against = spread.capped(log_beta, other).weights
    weights = np.concatenate([for_, against], axis=1)

    def log_w(share: Array, rows: Rows) -> Array:
        share = share[:, None]
        bets = np.concatenate([v[rows], -v[rows] * (share / (1 - share))], axis=1)
        return log_wealth(bets, weights[rows])

    hits, misses = (np.einsum("qa,qa->q", v, part) for part in (for_, against))
    with np.errstate(invalid="ignore"):
        seen = np.where(hits + misses > 0, hits / (hits + misses), 0.0)
    return least_shown(log_w, seen, np.ones(len(log_beta)), alpha)


def lost_at_least(spread: Spread, log_beta: Array, *, alpha: float) -> Array:
    """Return lower bounds on lost(beta) = 1 - Z_beta/Z.

    x = tau w - (w - beta)+ is at most tau beta, at w = beta.
    """
    # Far below every ratio, the bound at a larger beta serves: lost falls with beta.
    cells = spread.open(np.maximum(log_beta, spread.log_top - FAR), rounded="up")
    w, weights = cells.w, cells.weights
    excess = np.maximum(w - 1, 0.0)

    def log_w(tau: Array, rows: Rows) -> Array:
        return log_wealth(w[rows] - _over(excess[rows], tau), weights[rows])

    total = np.einsum("qa,qa->q", w, weights)
    with np.errstate(invalid="ignore"):
        seen = np.where(total > 0, np.einsum("qa,qa->q", excess, weights) / total, 0.0)
    return least_shown(log_w, seen, np.zeros(len(log_beta)), alpha)


def tvd_at_least(spread: Spread, log_beta: Array, *, alpha: float) -> Array:
    """Return lower bounds on TVD(p, p_beta).

    TVD = E[(min(w, beta) - s w)+]/Z_beta with s = Z_beta/Z, which falls with s. Half of alpha goes
    into an upper bound on s, the other half into the bound on TVD for that s.
    """
    s = 1 - lost_at_least(spread, log_beta, alpha=alpha / 2)
    log_s = np.log(s)
    cells = spread.capped(log_beta - log_s, rounded="up")
    w, weights = cells.w / s[:, None], cells.weights  # in units of beta
    v = np.minimum(w, 1.0)
    gap = np.maximum(v - s[:, None] * w, 0.0)

    def log_w(tau: Array, rows: Rows) -> Array:
        return log_wealth(v[rows] - _over(gap[rows], tau), weights[rows])

    total = np.einsum("qa,qa->q", v, weights)
    with np.errstate(invalid="ignore"):
        seen = np.where(total > 0, np.einsum("qa,qa->q", gap, weights) / total, 0.0)
    return least_shown(log_w, seen, np.zeros(len(log_beta)), alpha / 2)


def _over(part: Array, parameter: Array) -> Array:
    """Return part/parameter; where no float holds it, a smaller number, which shows less."""
    with np.errstate(over="ignore"):
        return np.minimum(part / np.maximum(parameter, 1e-300)[:, None], 1e290)


def _mean(y: Array, weights: Array, empty: float) -> Array:
    n = weights.sum(axis=1)
    with np.errstate(invalid="ignore"):
        mean: Array = np.where(n > 0, np.einsum("qa,qa->q", y, weights) / n, empty)
    return np.clip(mean, 0.0, 1.0)
