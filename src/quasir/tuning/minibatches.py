"""Minibatches of the pool: which draws, and what each counts for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array
from quasir.tuning.losses import Loss
from quasir.tuning.pool import Pool

__all__ = ["Minibatches"]

SHARES = (0.45, 0.45, 0.1)
"""Of a minibatch with centred weights: by p, by the proposal, and by m."""


class Minibatches:
    """Draws of the pool by their weight, and the coefficients that make up for it.

    The gradient is -(1/N) sum_i c_i weight_i grad log pi(x_i) over the pool, draw i standing for
    c_i draws. A minibatch takes draw i with chance s_i, and so counts it c_i weight_i/(N s_i). The
    chances are those of p: s_i ~ c_i P(x_i)/m(x_i). Then a coefficient is 1 for the forward KL and
    at most 1 for TV and JS, since (pi/m)/(p/m) = pi/p is bounded where it counts. Where the weights
    are centred, draws with P(x) = 0 count too, by pi: half of the chance is then that of the
    proposal, which is what pi was when the round began, and a tenth that of m, so that no draw is
    left out.

    Parameters
    ----------
    pool : Pool
    loss : Loss
    proposal : int
        The number of the proposal that is nearest to pi.
    log_z : float
        log Z, the running estimate.
    centred : bool
        Whether weights are those with B = f'(1); see `quasir.tuning.losses`.
    clip : float, optional
        Where p/m is above it, p is taken for `clip` times m: less variance, and the gradient of
        another target, min(p, clip m).

    Attributes
    ----------
    chance : array (kept,)
    clipped : float
        The share of p's mass that clipping took.
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
        # Rounding may put the last mark at the very end, where the last draw may have chance 0.
        last = int(np.flatnonzero(self.chance)[-1])
        taken: NDArray[np.intp] = np.searchsorted(cumulative, marks, side="right")
        return taken.clip(max=last)

    def coefficients(self, index: NDArray[np.intp], log_pi: Array) -> Array:
        """Return what each of the draws counts for; pi is needed only where the loss says so."""
        weight = self.loss.weight(self.log_p[index], log_pi, self.log_m[index], self.centred)
        counted: Array = self.stands_for[index] * weight / (self.n * self.chance[index])
        return counted

    @property
    def needs_pi(self) -> bool:
        """Whether the coefficients depend on pi."""
        return self.loss.needs_pi or self.centred
