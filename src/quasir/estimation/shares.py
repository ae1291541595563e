"""A promise over many contexts: how many of them can have a TVD above a level, and its mean.

For a fixed level tau, the wealth of a context at its true g* (lost(g*) = tau) is a martingale, and
a context whose TVD at the chosen beta is above tau has at least the wealth that is observed there.
So the product over all contexts of (1 - e + e times that wealth) stays below 1/alpha with
confidence 1 - alpha, and bounds how many contexts are above tau. The betas may be chosen by the
draws, and so may the number of draws of each context. docs/contexts.md has the proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array
from quasir.errors import InputError
from quasir.estimation.ground import Ground, alpha_of, believed
from quasir.estimation.spread import Spread
from quasir.estimation.upper_bounds import FAR, Bet

__all__ = ["LEVELS", "MeanPromise", "mean_promise", "most_above", "tvd_log_wealths"]

LEVELS = 0.004 * 1.088 ** np.arange(64.0)
"""The levels tau, from 0.004 to 0.81, fixed beforehand; each has an equal part of alpha."""


@dataclass(frozen=True)
class MeanPromise:
    """What is promised about all contexts together.

    Attributes
    ----------
    tvd : float
        The mean of TVD over the served contexts is at most this.
    contexts : int
        How many contexts it is about.
    above : array of int
        For each of `LEVELS`: at most so many of them have a TVD above it.
    confidence : float
        All of it holds together with this confidence, whenever it is looked at.
    """

    tvd: float
    contexts: int
    above: NDArray[np.int64]
    confidence: float


def tvd_log_wealths(spread: Spread, log_beta: float, ground: Ground) -> Array:
    """Return the log wealth that the draws of one context have against "TVD > tau".

    It is computed at each of `LEVELS`: infinite where TVD is certainly not above the level, and
    -inf where nothing can be promised. A bound on Z that may fail itself is no ground here.

    Examples
    --------
    >>> log_w = np.sort(np.minimum(np.random.default_rng(0).normal(size=20_000), 3.0))
    >>> spread = Spread.of_sorted(20_000, log_w)
    >>> wealth = tvd_log_wealths(spread, math.log(5.0), Ground(log_ceiling=3.0))
    >>> bool(wealth[0] < 0 < wealth[40])
    True
    """
    ground = believed(spread, ground)
    nothing = np.full(len(LEVELS), -np.inf)
    if ground.log_ceiling == math.inf and (ground.log_z is None or ground.spent):
        return nothing
    if log_beta >= ground.log_ceiling:
        return np.full(len(LEVELS), np.inf)
    log_z = ground.log_z if ground.log_ceiling == math.inf else None
    if log_beta <= (ground.log_ceiling if log_z is None else spread.log_top) - FAR:
        return nothing
    bet = Bet(spread, np.full(len(LEVELS), log_beta), ground.log_ceiling, log_z)
    return bet.tvd(LEVELS, np.arange(len(LEVELS)))


def most_above(log_wealth: Array, contexts: int, log_need: float) -> int:
    """Return how many contexts can be above a level.

    Parameters
    ----------
    log_wealth : array
        Of each served context, at this level.
    contexts : int
        All contexts of the run, served or not; fixed before the draws.
    log_need : float
        Log of 1/alpha.

    Examples
    --------
    >>> most_above(np.full(1000, 7.0), 1000, math.log(20.0))
    5
    """
    fractions = _fractions(contexts)
    need = log_need + math.log(len(fractions))
    wealth = np.sort(log_wealth)
    most = len(wealth)
    for e in fractions:
        # A context that is above adds this to the log of the product, any other at least 0.
        gain = np.logaddexp(math.log1p(-e), math.log(e) + wealth) - math.log1p(-e)
        room = need - contexts * math.log1p(-e)
        most = min(most, int(np.searchsorted(np.cumsum(gain), room)))
    return most


def _fractions(contexts: int) -> list[float]:
    """Return the fractions e, from 0.9 to about 1/contexts."""
    return [0.9, *(2.0**-j for j in range(1, max(contexts, 1).bit_length() + 2))]


def mean_promise(log_wealth: Array, contexts: int, confidence: float = 0.95) -> MeanPromise | None:
    """Return the promise about the mean TVD of the served contexts, or None if there is none.

    TVD is the integral over tau of "TVD > tau", so its mean is the integral of the share of
    contexts above tau.

    Parameters
    ----------
    log_wealth : array (served contexts, levels)
        By `tvd_log_wealths`.
    contexts : int
        All contexts of the run.
    confidence : float
    """
    alpha = alpha_of(confidence)
    log_wealth = np.atleast_2d(np.asarray(log_wealth, np.float64))
    served = len(log_wealth)
    if log_wealth.shape[1] != len(LEVELS) or served > contexts:
        raise InputError(
            f"wealths of shape {log_wealth.shape} do not fit {contexts} contexts and "
            f"{len(LEVELS)} levels."
        )
    if not (log_wealth > -np.inf).any():
        return None
    need = math.log(len(LEVELS)) - math.log(alpha)
    above = np.minimum.accumulate(
        [most_above(column, contexts, need) for column in log_wealth.T]
    ).astype(np.int64)
    # Below the first level every context counts, unless its TVD is certainly 0.
    uncertain = int((log_wealth[:, 0] < np.inf).sum())
    counts = np.concatenate([[uncertain], np.minimum(above, uncertain)])
    steps = np.diff(np.concatenate([[0.0], LEVELS, [1.0]]))
    return MeanPromise(float(counts @ steps) / served, served, above, confidence)
