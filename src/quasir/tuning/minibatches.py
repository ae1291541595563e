"""Minibatches of the pool: which draws they contain, and how much each draw counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array
from quasir.tuning.losses import Loss
from quasir.tuning.pool import Pool

__all__ = ["Minibatches"]

SHARES = (0.45, 0.45, 0.1)
"""Shares of p, of the proposal and of m in the chances of draws, for centred weights."""


class Minibatches:
    """Minibatches drawn from the pool with unequal chances, and coefficients that correct for them.

    The gradient is -(1/N) sum_i c_i weight_i grad log pi(x_i) over the pool, where draw i stands
    for c_i draws. A minibatch takes draw i with chance s_i, so its coefficient is
    c_i weight_i/(N s_i). The chances are those of p: s_i ~ c_i P(x_i)/m(x_i). Then a coefficient
    is 1 for the forward KL and at most 1 for TV and JS, because (pi/m)/(p/m) = pi/p is bounded
    where the weight is not 0. With centred weights draws with P(x) = 0 also count, in proportion
    to pi. So the chances are then a mixture (`SHARES`): of p, of the proposal, which is near pi,
    and of m, which gives every draw a chance.

    Parameters
    ----------
    pool : Pool
    loss : Loss
    proposal : int
        Number of the current proposal, the one nearest to pi.
    log_z : float
        The running estimate of log Z.
    centred : bool
        Whether to use the weights with B = f'(1); see `quasir.tuning.losses`.
    clip : float, optional
        Upper limit of p/m. It lowers the variance, but the gradient is then that of another
        target, min(p, clip m).

    Attributes
    ----------
    chance : array (kept,)
        The chance of each draw of the pool.
    clipped : float
        Share of p's mass that clipping removed.
    """

    def __init__(
        self,
        pool: Pool,
        loss: Loss,
        proposal: int,
        log_z: float,
        centred: bool,
        clip: float | None = None,
    ) -> None:
        self.loss, self.centred = loss, centred
        self.n, self.stands_for, self.log_m = pool.n, pool.stands_for, pool.log_m
        self.log_p = pool.log_p - log_z
        self.clipped = 0.0
        mass = self._mass()
        if clip is not None:
            self.log_p = np.minimum(self.log_p, self.log_m + np.log(clip))
            whole, mass = mass.sum(), self._mass()
            self.clipped = float(1.0 - mass.sum() / whole)
        self.chance = mass / mass.sum()
        if centred or loss.plain is None:
            near = self.stands_for * np.exp(pool.log_q[:, proposal] - self.log_m)
            parts = (self.chance, near / near.sum(), self.stands_for / self.stands_for.sum())
            self.chance = sum(share * part for share, part in zip(SHARES, parts, strict=True))

    def _mass(self) -> Array:
        mass: Array = self.stands_for * np.exp(self.log_p - self.log_m)
        return mass

    def take(self, size: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """Return indices of `size` draws, by systematic sampling from one uniform."""
        cumulative = np.cumsum(self.chance)
        marks = (rng.random() + np.arange(size)) / size * cumulative[-1]
        # Rounding may put the last mark at the very end, where a draw may have chance 0.
        last = int(np.flatnonzero(self.chance)[-1])
        taken: NDArray[np.intp] = np.searchsorted(cumulative, marks, side="right")
        return taken.clip(max=last)

    def coefficients(self, index: NDArray[np.intp], log_pi: Array) -> Array:
        """Return the coefficients of the chosen draws; `log_pi` matters only if `needs_pi`."""
        weight = self.loss.weight(self.log_p[index], log_pi, self.log_m[index], self.centred)
        counted: Array = self.stands_for[index] * weight / (self.n * self.chance[index])
        return counted

    @property
    def needs_pi(self) -> bool:
        """Whether the coefficients depend on pi."""
        return self.loss.needs_pi or self.centred
