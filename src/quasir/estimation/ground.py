"""What promises rest on: a ceiling of the ratios, or what is known about Z."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from quasir.draws.base_check import BaseCheck
from quasir.draws.known import Known
from quasir.errors import InputError
from quasir.estimation.spread import Spread
from quasir.estimation.two_sided import acceptance_rate_at_most

__all__ = ["Ground", "alpha_left", "alpha_of", "believed", "ground_of", "ground_of_base"]

ROUNDING = 1e-9
"""How far above the ceiling rounding may put a log ratio."""
NO_GROUND = (
    "Nothing can be promised about TVD, lost and KL: no ceiling of the ratios P(x)/q(x) is known. "
    "Mix the proposal with the base, and declare the bounds of the features, or give log_ceiling."
)


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What promises rest on; with neither a ceiling nor Z, there are none about TVD, lost and KL.

    Attributes
    ----------
    log_ceiling : float
        Log of M, a proved upper bound on every ratio; infinite where none is known.
    log_z : float or None
        Log of Z, or of an upper bound on it. Used only where there is no ceiling.
    spent : float
        The share of 1 - confidence that the upper bound on Z has used; 0 where Z is exact.
    confidence : float or None
        The confidence that the upper bound on Z was made for; None where Z is exact.
    basis : str
        One sentence: what is known, and why; or why nothing is, and what would help.
    """

    log_ceiling: float = math.inf
    log_z: float | None = None
    spent: float = 0.0
    confidence: float | None = None
    basis: str = NO_GROUND

    @property
    def solid(self) -> bool:
        """Whether TVD and lost can be promised."""
        return self.log_ceiling < math.inf or self.log_z is not None


def ground_of_base(
    base: Spread, log_most: float, *, confidence: float = 0.95, basis: str | None = None
) -> Ground:
    """Return a ground from draws of the base a, where P(x) = a(x) b(x) and b(x) <= B.

    Z = E_a[b(x)] is the acceptance rate of the base's draws at beta = B, times B. Half of
    1 - confidence goes into the upper bound on it; the promises have the other half.

    Parameters
    ----------
    base : Spread
        Of log b(x), for draws of the base, independent of those of q.
    log_most : float
        Log of B.
    confidence : float
        That of the promises.
    basis : str, optional
        A sentence of the caller's own.
    """
    rate = acceptance_rate_at_most(base, np.array([log_most]), alpha=alpha_of(confidence) / 2)
    said = basis or (
        f"It rests on {base.n:,.0f} draws of the base, which bound Z, and on b(x) being at most "
        f"{math.exp(min(log_most, 700.0)):.4g}; there is no ceiling of the ratios."
    )
    return Ground(
        log_z=log_most + math.log(float(rate[0])), spent=0.5, confidence=confidence, basis=said
    )


def ground_of(known: Known, check: BaseCheck | None, confidence: float = 0.95) -> Ground:
    """Return what promises about these draws rest on.

    Parameters
    ----------
    known : Known
        What target and proposal declare.
    check : BaseCheck or None
        Draws of the base: they bound Z where b(x) is bounded but the ratios are not.
    confidence : float
        That of the promises.
    """
    if known.log_ceiling < math.inf:
        return Ground(log_ceiling=known.log_ceiling, basis=known.basis)
    if known.log_z is not None:
        return Ground(log_z=known.log_z, basis=known.basis)
    if check is not None and known.log_most < math.inf:
        base = Spread.of_sorted(check.draws, np.sort(np.array(check.log_weight)))
        return ground_of_base(base, known.log_most, confidence=confidence)
    return Ground(basis=f"Nothing can be promised about TVD, lost and KL. {known.basis}")


def alpha_of(confidence: float) -> float:
    """Return 1 - confidence."""
    if not 0 < confidence < 1:
        raise InputError(
            f"confidence is {confidence}, but must lie between 0 and 1; 0.95 is common."
        )
    return 1 - confidence


def alpha_left(alpha: float, ground: Ground, confidence: float) -> float:
    """Return what is left of alpha for the draws of q."""
    if ground.confidence not in (None, confidence):
        raise InputError(
            f"the bound on Z was made for promises of confidence {ground.confidence}, but "
            f"{confidence} is asked for: make it again with this confidence."
        )
    return alpha * (1 - ground.spent)


def believed(spread: Spread, ground: Ground) -> Ground:
    """Return the ground without its ceiling if a ratio exceeds it."""
    if spread.log_top <= ground.log_ceiling + ROUNDING:
        return ground
    why = (
        "Nothing can be promised about TVD, lost and KL: the ceiling of the ratios was taken to be "
        f"e^{ground.log_ceiling:.6g}, but a draw has e^{spread.log_top:.6g}. The ceiling or the "
        "scores are wrong: find out why P(x)/q(x) exceeds it."
    )
    return replace(ground, log_ceiling=math.inf, basis=why)
