"""Upper bounds on lost, TVD and KL that hold at any number of draws, whenever they are looked at.

With the ratios w in [0, M], each bound is the least parameter that a bet shows. Where no ceiling M
is known but Z is, or an upper bound on Z, lost and TVD are bounded all the same. Levels are arrays
of log beta; `alpha` is 1 - confidence. docs/promises.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array
from quasir.estimation.betting import least_shown, log_wealth
from quasir.estimation.certain import certain
from quasir.estimation.spread import Spread

__all__ = ["Bet", "kl_at_most", "lost_at_most", "shown", "tvd_at_most"]

Rows = NDArray[np.intp]
FAR = 600.0
"""Nats between a level and M, or Z, that a float can bridge."""


class Bet:
    """A bet that a quantity is below a parameter, at each of Q levels.

    Parameters
    ----------
    spread : Spread
        The draws.
    log_beta : array (Q,)
    log_ceiling : float
        Log of M, a proved upper bound on every ratio.
    log_z : float, optional
        Log of Z, or of an upper bound on it; it is used instead of the ceiling.
    """

    def __init__(
        self, spread: Spread, log_beta: Array, log_ceiling: float, log_z: float | None = None
    ) -> None:
        self.log_beta, self.log_z = log_beta, log_z
        self._cells = spread.open(log_beta)
        self.w, self.weights = self._cells.w, self._cells.weights
        # In units of beta.
        with np.errstate(over="ignore"):
            self.top = np.exp(log_ceiling - log_beta)
            # A larger Z makes the bet harder, so that the bound holds.
            self.z = np.exp(np.maximum((math.nan if log_z is None else log_z) - log_beta, -FAR))

    def lost(self, tau: Array, rows: Rows) -> Array:
        """Return log W for "lost(beta) < tau"."""
        return self._lost(np.ones(len(rows)), tau, rows)

    def tvd(self, tau: Array, rows: Rows) -> Array:
        """Return log W for "lost(beta/(1 - tau)) < tau", which implies that TVD < tau."""
        return self._lost(1 / (1 - tau), tau, rows)

    def _lost(self, g: Array, tau: Array, rows: Rows) -> Array:
        w, level, most = self.w[rows], g[:, None], tau[:, None]
        if self.log_z is not None:
            bets = 1 - np.minimum(w, level) / ((1 - most) * self.z[rows, None])
            return log_wealth(bets, self.weights[rows])
        x = np.maximum(w - level, 0.0) - most * w
        return self._wealth(x, (1 - tau) * self.top[rows] - g, rows)

    def kl(self, kappa: Array, rows: Rows) -> Array:
        """Return log W for "KL(p, p_beta) < kappa"."""
        w, top = self.w[rows], self.top[rows]
        x = w * np.maximum(self._cells.log_w[rows], 0.0) - np.maximum(w - 1, 0.0)
        x -= kappa[:, None] * w
        return self._wealth(x, (certain("kl", np.log(top)) - kappa) * top, rows)

    def _wealth(self, x: Array, high: Array, rows: Rows) -> Array:
        """Return log W for x <= high; infinite where high <= 0, for then E[x] <= 0 is certain."""
        open_ = high > 0
        bets = np.minimum(x / np.where(open_, high, 1.0)[:, None], 1.0)
        return np.where(open_, log_wealth(bets, self.weights[rows]), np.inf)


def lost_at_most(
    spread: Spread,
    log_beta: Array,
    *,
    alpha: float,
    log_ceiling: float = math.inf,
    log_z: float | None = None,
) -> Array:
    """Return upper bounds on lost(beta) = 1 - Z_beta/Z; the arguments are those of `tvd_at_most`.

    Whatever the draws, lost(beta) <= 1 - beta/M.
    """
    return _bound(spread, log_beta, "lost", alpha, log_ceiling, log_z)


def tvd_at_most(
    spread: Spread,
    log_beta: Array,
    *,
    alpha: float,
    log_ceiling: float = math.inf,
    log_z: float | None = None,
) -> Array:
    """Return upper bounds on TVD(p, p_beta).

    Each is the least tau for which lost(beta/(1 - tau)) <= tau is shown. Whatever the draws, TVD is
    at most 1 - sqrt(beta/M).

    Parameters
    ----------
    spread : Spread
    log_beta : array (Q,)
    alpha : float
        1 - confidence.
    log_ceiling : float
        Log of M, a proved upper bound on every ratio; infinite where only Z is known.
    log_z : float, optional
        Log of Z, or of an upper bound on it, for use without a ceiling.

    Examples
    --------
    >>> log_w = np.sort(np.minimum(np.random.default_rng(0).normal(size=20_000), 3.0))
    >>> spread = Spread.of_sorted(20_000, log_w)
    >>> tvd_at_most(spread, np.log([2.0, 5.0]), alpha=0.05, log_ceiling=3.0).round(3)
    array([0.249, 0.095])
    """
    return _bound(spread, log_beta, "tvd", alpha, log_ceiling, log_z)


def kl_at_most(spread: Spread, log_beta: Array, *, alpha: float, log_ceiling: float) -> Array:
    """Return upper bounds on KL(p, p_beta); the arguments are those of `tvd_at_most`.

    With rise = log(M/beta), KL is at most rise - 1 + e^-rise, whatever the draws.
    """
    return _bound(spread, log_beta, "kl", alpha, log_ceiling, None)


def shown(
    quantity: str,
    spread: Spread,
    log_beta: float,
    most: float,
    *,
    alpha: float,
    log_ceiling: float = math.inf,
    log_z: float | None = None,
) -> bool:
    """Return whether the draws show that a quantity, "tvd", "lost" or "kl", is at most `most`."""
    if log_z is None and most >= certain(quantity, np.array(log_ceiling - log_beta)):
        return True
    bet = Bet(spread, np.array([log_beta]), log_ceiling, log_z)
    test: Callable[[Array, Rows], Array] = getattr(bet, quantity)
    return bool(test(np.array([most]), np.array([0]))[0] >= -math.log(alpha))


def _bound(
    spread: Spread,
    log_beta: Array,
    quantity: str,
    alpha: float,
    log_ceiling: float,
    log_z: float | None,
) -> Array:
    """Return the least parameter shown at each level, and what is certain where none below is."""
    out = certain(quantity, log_ceiling - log_beta)
    # Far below M, or below every ratio, nothing more than what is certain can be shown.
    farthest = (log_ceiling if log_z is None else spread.log_top) - FAR
    rows = np.flatnonzero((log_beta < log_ceiling) & (log_beta > farthest))
    bet = Bet(spread, log_beta[rows], log_ceiling, log_z)
    out[rows] = least_shown(getattr(bet, quantity), np.zeros(len(rows)), out[rows], alpha)
    return out
