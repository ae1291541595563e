"""Bounds by betting, which hold at any number of draws (docs/records/proofs.md).

Let x <= hi for every draw. Where E[x] >= 0, the wealth W = sum_j pi_j prod_i (1 - b_j x_i/hi) is a
supermartingale that begins at 1, so it ever reaches 1/alpha with probability alpha at most (Ville;
Waudby-Smith and Ramdas 2024): W >= 1/alpha, at whichever n, shows that E[x] < 0. `alpha` is
1 - confidence of each bound by itself, and levels are arrays of log beta.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array
from quasir.estimation.binned_draws import BinnedDraws
from quasir.estimation.formulas import ceiling_bound

Rows = NDArray[np.intp]
FRACTIONS = 0.95 * 1.4 ** -np.arange(24.0)
"""The fractions b_j. The best is about hi/sd(x) times sqrt(2 log(1/alpha)/N).

One of these is within a factor of sqrt(1.4) of it up to N = 10^7 at least, and loses 3 % of log W.
"""
LOG_SHARES = -np.log(np.arange(1.0, 25.0) * np.arange(2.0, 26.0) * (1 - 1 / 25))
"""The logs of the shares pi_j, proportional to 1/((j + 1)(j + 2)); they sum to 1."""

AT_ONCE = 2**18  # how many logarithms are computed at once, for the sake of the cache
CLOSE = 2e-4  # how close to the least parameter shown the search gets, as a share of its distance
FAR = 600.0  # nats between a level and M, or Z, that a float can bridge


def log_wealth(bets: Array, weights: Array) -> Array:
    """Return log W for rows of draws."""
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
    log_wealth_at: Callable[[Array, Rows], Array], start: Array, end: Array, alpha: float
) -> Array:
    """Return, for each row, the parameter nearest to `start` that is shown, to 2e-4 of the way."""
    # The wealth rises from `start`, where it is at most 1, to `end`, where nothing need be shown.
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


class Bet:
    """A bet that a quantity is below a parameter, at each of Q levels."""

    def __init__(
        self, binned: BinnedDraws, log_beta: Array, log_ceiling: float, log_z: float | None = None
    ) -> None:
        self.log_beta, self.log_z = log_beta, log_z
        self._log_w, self.weights = binned.open(log_beta)
        self.w = np.exp(self._log_w)
        # In units of beta.
        with np.errstate(over="ignore"):
            self.top = np.exp(log_ceiling - log_beta)
            # A larger Z makes the bet harder, so that the bound holds.
            self.z = np.exp(np.maximum((math.nan if log_z is None else log_z) - log_beta, -FAR))

    def truncated_mass(self, tau: Array, rows: Rows) -> Array:
        """Return log W for "truncated_mass(beta) < tau"."""
        return self._truncated_mass(np.ones(len(rows)), tau, rows)

    def tvd(self, tau: Array, rows: Rows) -> Array:
        """Return log W for "truncated_mass(beta/(1 - tau)) < tau", which implies TVD < tau."""
        return self._truncated_mass(1 / (1 - tau), tau, rows)

    def _truncated_mass(self, g: Array, tau: Array, rows: Rows) -> Array:
        w, level, most = self.w[rows], g[:, None], tau[:, None]
        if self.log_z is not None:
            bets = 1 - np.minimum(w, level) / ((1 - most) * self.z[rows, None])
            return log_wealth(bets, self.weights[rows])
        x = np.maximum(w - level, 0.0) - most * w
        return self._wealth(x, (1 - tau) * self.top[rows] - g, rows)

    def kl(self, kappa: Array, rows: Rows) -> Array:
        """Return log W for "KL(p, p_beta) < kappa"."""
        w, top = self.w[rows], self.top[rows]
        x = w * np.maximum(self._log_w[rows], 0.0) - np.maximum(w - 1, 0.0)
        x -= kappa[:, None] * w
        return self._wealth(x, (ceiling_bound("kl", np.log(top)) - kappa) * top, rows)

    def _wealth(self, x: Array, high: Array, rows: Rows) -> Array:
        """Return log W for x <= high; infinite where high <= 0, for then E[x] <= 0 is certain."""
        open_ = high > 0
        bets = np.minimum(x / np.where(open_, high, 1.0)[:, None], 1.0)
        return np.where(open_, log_wealth(bets, self.weights[rows]), np.inf)


def upper_bounds(
    quantity: str,
    binned: BinnedDraws,
    log_beta: Array,
    *,
    alpha: float,
    log_ceiling: float = math.inf,
    log_z: float | None = None,
) -> Array:
    """Return upper bounds on a quantity of `GUARANTEED`, at most what is certain for it."""
    out = ceiling_bound(quantity, log_ceiling - log_beta)
    # Far below M, or below every ratio, nothing more than what is certain can be shown.
    farthest = (log_ceiling if log_z is None else binned.log_top) - FAR
    rows = np.flatnonzero((log_beta < log_ceiling) & (log_beta > farthest))
    bet = Bet(binned, log_beta[rows], log_ceiling, log_z)
    out[rows] = least_shown(getattr(bet, quantity), np.zeros(len(rows)), out[rows], alpha)
    return out


def is_shown(
    quantity: str,
    binned: BinnedDraws,
    log_beta: float,
    most: float,
    *,
    alpha: float,
    log_ceiling: float = math.inf,
    log_z: float | None = None,
) -> bool:
    """Return whether the draws show that a quantity of `GUARANTEED` is at most `most`."""
    if most >= ceiling_bound(quantity, np.array(log_ceiling - log_beta)):
        return True
    bet = Bet(binned, np.array([log_beta]), log_ceiling, log_z)
    test: Callable[[Array, Rows], Array] = getattr(bet, quantity)
    return bool(test(np.array([most]), np.array([0]))[0] >= -math.log(alpha))


def acceptance_rate_at_most(binned: BinnedDraws, log_beta: Array, *, alpha: float) -> Array:
    """Return upper bounds on the acceptance rate E[min(w/beta, 1)]; at beta = M it is Z/M."""
    y, weights = binned.capped(log_beta, rounded="up")

    def log_w(rate: Array, rows: Rows) -> Array:
        rate = rate[:, None]
        return log_wealth((y[rows] - rate) / (1 - rate), weights[rows])

    return least_shown(log_w, _mean(y, weights, 1.0), np.ones(len(log_beta)), alpha)


def acceptance_rate_at_least(binned: BinnedDraws, log_beta: Array, *, alpha: float) -> Array:
    """Return lower bounds on the acceptance rate E[min(w/beta, 1)]."""
    y, weights = binned.capped(log_beta)

    def log_w(rate: Array, rows: Rows) -> Array:
        with np.errstate(over="ignore"):  # where no float holds it, a smaller one, which shows less
            over = np.minimum(y[rows] / np.maximum(rate, 1e-300)[:, None], 1e290)
        return log_wealth(1 - over, weights[rows])

    return least_shown(log_w, _mean(y, weights, 0.0), np.zeros(len(log_beta)), alpha)


def moment_bounds(
    binned: BinnedDraws, name: str, log_beta: Array, *, alpha: float
) -> tuple[Array, Array]:
    """Return lower and upper bounds on the mean of a bounded feature under p_beta."""
    # A draw counts in part as one at the feature's upper and in part as one at its lower bound.
    (low, high), k = binned.bounds[name], list(binned.bounds).index(name)
    ones, zeros = 1 + 2 * k, 2 + 2 * k
    least = high - (high - low) * _share_at_most(binned, zeros, ones, log_beta, alpha)
    return least, low + (high - low) * _share_at_most(binned, ones, zeros, log_beta, alpha)


def _share_at_most(
    binned: BinnedDraws, row: int, other: int, log_beta: Array, alpha: float
) -> Array:
    """Return upper bounds on the share of one row's draws in p_beta, against those of the other."""
    # The wealth falls with v = min(w/beta, 1) on the row's draws, and rises with it on the others.
    v, for_ = binned.capped(log_beta, row, rounded="up")
    against = binned.capped(log_beta, other)[1]
    weights = np.concatenate([for_, against], axis=1)

    def log_w(share: Array, rows: Rows) -> Array:
        share = share[:, None]
        bets = np.concatenate([v[rows], -v[rows] * (share / (1 - share))], axis=1)
        return log_wealth(bets, weights[rows])

    hits, misses = (np.einsum("qa,qa->q", v, part) for part in (for_, against))
    with np.errstate(invalid="ignore"):
        seen = np.where(hits + misses > 0, hits / (hits + misses), 0.0)
    return least_shown(log_w, seen, np.ones(len(log_beta)), alpha)


def _mean(y: Array, weights: Array, empty: float) -> Array:
    n = weights.sum(axis=1)
    with np.errstate(invalid="ignore"):
        mean: Array = np.where(n > 0, np.einsum("qa,qa->q", y, weights) / n, empty)
    return np.clip(mean, 0.0, 1.0)
