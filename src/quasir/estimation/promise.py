"""Promises: what holds with stated confidence at any number of draws, whenever it is looked at.

A promise is no estimate. It rests on a ceiling of the ratios, or on what is known about Z, and on
nothing else: not on a large number of draws, not on the shape of a tail.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from quasir.core.types import Array
from quasir.errors import InputError
from quasir.estimation.ground import Ground, alpha_left, alpha_of, believed
from quasir.estimation.spread import Spread
from quasir.estimation.two_sided import (
    acceptance_rate_at_least,
    acceptance_rate_at_most,
    moment_at_least,
    moment_at_most,
)
from quasir.estimation.upper_bounds import kl_at_most, lost_at_most, shown, tvd_at_most

__all__ = ["BOUNDS", "Promise", "Promises", "promised_level", "promises"]

WITHIN = 1e-4
"""How close, in log beta, the search for the least promised beta gets."""

BOUNDS: dict[str, Callable[..., Array]] = {
    "tvd": tvd_at_most,
    "lost": lost_at_most,
    "kl": kl_at_most,
}


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What is promised at one beta. Each part by itself holds with the stated confidence.

    Attributes
    ----------
    tvd, lost, kl : float or None
        Upper bounds; None where nothing can be promised.
    acceptance_rate : tuple of float
        The lower and upper end.
    moments : dict
        For each feature with declared bounds: the lower and upper end of its mean under p_beta.
    confidence : float
    basis : str
        One sentence: what the promise rests on, or why there is none and what would give one.

    Examples
    --------
    >>> import quasir as qr
    >>> base = qr.Table({"she": 0.1, "he": 0.9})
    >>> curve = qr.tradeoff(qr.draw(base * qr.features.female, base, 10_000, seed=0))
    >>> promise = curve.at(beta=0.9).promise
    >>> promise.confidence, bool(promise.tvd <= 1)
    (0.95, True)
    """

    tvd: float | None
    lost: float | None
    kl: float | None
    acceptance_rate: tuple[float, float]
    moments: dict[str, tuple[float, float]]
    confidence: float
    basis: str

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        return {
            **{name: getattr(self, name) for name in BOUNDS},
            "acceptance_rate": list(self.acceptance_rate),
            "moments": {name: list(ends) for name, ends in self.moments.items()},
            "confidence": self.confidence,
            "basis": self.basis,
        }

    def __str__(self) -> str:
        known = {"TVD": self.tvd, "lost": self.lost, "KL": self.kl}
        parts = [f"{name} at most {x:.3g}" for name, x in known.items() if x is not None]
        return ", ".join(parts) or "nothing about TVD"


@dataclass(frozen=True, kw_only=True)
class Promises:
    """The promises along Q levels; ``promises[i]`` is the `Promise` at level i.

    Attributes
    ----------
    log_betas : array (Q,)
    tvd, lost, kl : array (Q,) or None
    acceptance_rate : array (Q, 2)
    moments : dict of array (Q, 2)
    confidence, basis
        As in `Promise`.

    Examples
    --------
    >>> import quasir as qr
    >>> base = qr.Table({"she": 0.1, "he": 0.9})
    >>> curve = qr.tradeoff(qr.draw(base * qr.features.female, base, 10_000, seed=0))
    >>> len(curve.promises.tvd) == len(curve)
    True
    """

    log_betas: Array
    tvd: Array | None
    lost: Array | None
    kl: Array | None
    acceptance_rate: Array
    moments: dict[str, Array]
    confidence: float
    basis: str

    def __len__(self) -> int:
        return len(self.log_betas)

    def __getitem__(self, i: int) -> Promise:
        def one(bounds: Array | None) -> float | None:
            return None if bounds is None else float(bounds[i]) + 0.0  # not -0

        def pair(ends: Array) -> tuple[float, float]:
            return float(ends[i, 0]), float(ends[i, 1])

        return Promise(
            tvd=one(self.tvd),
            lost=one(self.lost),
            kl=one(self.kl),
            acceptance_rate=pair(self.acceptance_rate),
            moments={name: pair(ends) for name, ends in self.moments.items()},
            confidence=self.confidence,
            basis=self.basis,
        )

    def __iter__(self) -> Iterator[Promise]:
        return (self[i] for i in range(len(self)))


def promises(
    spread: Spread, log_betas: Array, ground: Ground, *, confidence: float = 0.95
) -> Promises:
    """Return the promises at each level.

    Each holds by itself with the stated confidence, at any number of draws and at any look. A
    level chosen because its promise looks good is not covered: `promised_level` chooses.

    Parameters
    ----------
    spread : Spread
        The draws.
    log_betas : array (Q,)
    ground : Ground
        What the promises rest on.
    confidence : float

    Examples
    --------
    >>> log_w = np.sort(np.minimum(np.random.default_rng(0).normal(size=20_000), 3.0))
    >>> ground = Ground(log_ceiling=3.0, basis="The ceiling is e^3.")
    >>> spread = Spread.of_sorted(20_000, log_w)
    >>> promise = promises(spread, np.log([5.0]), ground)[0]
    >>> round(promise.tvd, 3), round(promise.lost, 3), round(promise.kl, 3)
    (0.095, 0.111, 0.054)
    """
    log_betas = np.asarray(log_betas, np.float64)
    alpha = alpha_of(confidence)
    ground = believed(spread, ground)
    tvd, lost, kl = _upper(spread, log_betas, ground, confidence)
    rate = [
        bound(spread, log_betas, alpha=alpha / 2)
        for bound in (acceptance_rate_at_least, acceptance_rate_at_most)
    ]
    moments = {
        name: np.stack(
            [
                bound(spread, name, log_betas, alpha=alpha / 2)
                for bound in (moment_at_least, moment_at_most)
            ],
            axis=1,
        )
        for name in spread.bounds
    }
    return Promises(
        log_betas=log_betas,
        tvd=tvd,
        lost=lost,
        kl=kl,
        acceptance_rate=np.stack(rate, axis=1),
        moments=moments,
        confidence=confidence,
        basis=ground.basis,
    )


def _upper(
    spread: Spread, log_betas: Array, ground: Ground, confidence: float
) -> tuple[Array | None, Array | None, Array | None]:
    """Return upper bounds on TVD, lost and KL, or None where the ground gives none."""
    alpha = alpha_of(confidence)
    if ground.log_ceiling < math.inf:
        known = {"alpha": alpha, "log_ceiling": ground.log_ceiling}
        tvd, lost, kl = (bound(spread, log_betas, **known) for bound in BOUNDS.values())
        return tvd, lost, kl
    if ground.log_z is None:
        return None, None, None
    known = {"alpha": alpha_left(alpha, ground, confidence), "log_z": ground.log_z}
    return tvd_at_most(spread, log_betas, **known), lost_at_most(spread, log_betas, **known), None


def promised_level(
    spread: Spread, quantity: str, most: float, ground: Ground, *, confidence: float = 0.95
) -> float | None:
    """Return the least log beta at which a quantity is promised to be at most `most`, or None.

    The choice itself is promised: at this beta and at every larger one the quantity is at most
    `most`, with the stated confidence, at any number of draws and at any look.

    Parameters
    ----------
    spread : Spread
    quantity : "tvd", "lost" or "kl"
    most : float
    ground : Ground
    confidence : float

    Examples
    --------
    >>> log_w = np.sort(np.minimum(np.random.default_rng(0).normal(size=20_000), 3.0))
    >>> spread = Spread.of_sorted(20_000, log_w)
    >>> round(math.exp(promised_level(spread, "tvd", 0.1, Ground(log_ceiling=3.0))), 2)
    4.83
    """
    if quantity not in BOUNDS:
        raise InputError(f"{quantity!r} cannot be promised; {', '.join(BOUNDS)} can.")
    alpha = alpha_of(confidence)
    ground = believed(spread, ground)
    ceiling, log_z = ground.log_ceiling, ground.log_z
    if ceiling < math.inf:
        log_z = None
    elif log_z is None or quantity == "kl":
        return None
    else:
        alpha = alpha_left(alpha, ground, confidence)

    def holds(log_beta: float) -> bool:
        return shown(
            quantity, spread, log_beta, most, alpha=alpha, log_ceiling=ceiling, log_z=log_z
        )

    high = ceiling if ceiling < math.inf else spread.log_top
    if not math.isfinite(high) or not holds(high):
        return None
    step = 1.0
    while holds(high - step):
        high, step = high - step, 2 * step
        if step > 2000:  # every level is shown: `most` is 1 or above
            return -math.inf
    low = high - step
    while high - low > WITHIN:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    bound, known = BOUNDS[quantity], {"log_ceiling": ceiling}
    if log_z is not None:
        known = {"log_z": log_z}
    # The bound printed at this beta is found by another search: it must not be above `most`.
    while high < ceiling and bound(spread, np.array([high]), alpha=alpha, **known)[0] > most:
        high = min(high + WITHIN, ceiling)
    return high
