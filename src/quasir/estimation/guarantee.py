"""Guarantees: anytime-valid confidence bounds by betting, which hold whenever they are looked at.

They rest on a ceiling of the ratios, or on what is known about Z, and on nothing else: not on a
large number of draws, not on the shape of a tail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.formatting import rounded_up
from quasir.core.types import Array
from quasir.draws.ceiling import ROUNDING, BaseCheck, RatioBounds
from quasir.errors import InputError
from quasir.estimation.betting import (
    FAR,
    Bet,
    acceptance_rate_at_least,
    acceptance_rate_at_most,
    is_shown,
    moment_bounds,
    upper_bounds,
)
from quasir.estimation.binned_draws import BinnedDraws
from quasir.estimation.formulas import ceiling_bound
from quasir.estimation.quantities import GUARANTEED

WITHIN = 1e-4  # how close, in log beta, the search for the least guaranteed beta gets
NOTHING = "Nothing can be guaranteed about TVD, truncated mass and KL"


@dataclass(frozen=True, kw_only=True)
class Assumptions:
    """What guarantees rest on: none of TVD, truncated mass and KL without a ceiling or Z."""

    log_ceiling: float = math.inf  # of a proved upper bound on every ratio
    log_z: float | None = None  # of Z, or of an upper bound on it; used where there is no ceiling
    spent: float = 0.0  # the share of 1 - confidence that the upper bound on Z has used
    confidence: float | None = None  # that the bound on Z was made for; None where Z is exact
    # One sentence: what is known, and why; or why nothing is, and what would help.
    basis: str = (
        f"{NOTHING}: no ceiling of the ratios P(x)/q(x) is known. Mix the proposal with the base, "
        "and declare the bounds of the features, or give log_ceiling."
    )

    @classmethod
    def of(
        cls, known: RatioBounds, check: BaseCheck | None, confidence: float = 0.95
    ) -> Assumptions:
        """Return what guarantees rest on, by what is known besides the draws of q."""
        if known.log_ceiling < math.inf:
            return cls(log_ceiling=known.log_ceiling, basis=known.basis)
        if known.log_z is not None:
            return cls(log_z=known.log_z, basis=known.basis)
        if check is not None and known.log_most < math.inf:
            base = BinnedDraws.of_sorted(check.draws, np.sort(np.array(check.log_weight)))
            return cls.of_base(base, known.log_most, confidence)
        return cls(basis=f"{NOTHING}. {known.basis}")

    @classmethod
    def of_base(cls, base: BinnedDraws, log_most: float, confidence: float = 0.95) -> Assumptions:
        """Return what draws of the base a show, where P(x) = a(x) b(x) and b(x) <= B."""
        # Z = E_a[b(x)] is B times the base's acceptance rate at beta = B; half of 1 - confidence
        # goes into the upper bound on it.
        rate = acceptance_rate_at_most(base, np.array([log_most]), alpha=as_alpha(confidence) / 2)
        basis = (
            f"It rests on {base.n:,.0f} draws of the base, which bound Z, and on b(x) being at "
            f"most {math.exp(min(log_most, 700.0)):.4g}; there is no ceiling of the ratios."
        )
        log_z = log_most + math.log(float(rate[0]))
        return cls(log_z=log_z, spent=0.5, confidence=confidence, basis=basis)

    def without_violated_ceiling(self, log_top: float) -> Assumptions:
        """Return these without the ceiling if the largest ratio drawn exceeds it."""
        if log_top <= self.log_ceiling + ROUNDING:
            return self
        why = (
            f"{NOTHING}: the ceiling of the ratios was taken to be e^{self.log_ceiling:.6g}, but a "
            f"draw has e^{log_top:.6g}. The ceiling or the scores are wrong: find out why "
            "P(x)/q(x) exceeds it."
        )
        return replace(self, log_ceiling=math.inf, basis=why)

    def bet_on(self, quantity: str, confidence: float) -> dict[str, float] | None:
        """Return what a bet on a quantity is made with; None if there can be none."""
        alpha = as_alpha(confidence)
        if self.log_ceiling < math.inf:
            return {"alpha": alpha, "log_ceiling": self.log_ceiling}
        if self.log_z is None or quantity == "kl":
            return None
        if self.confidence not in (None, confidence):
            raise InputError(f"the bound on Z is for confidence {self.confidence}: make it again.")
        return {"alpha": alpha * (1 - self.spent), "log_z": self.log_z}


def as_alpha(confidence: float) -> float:
    """Return 1 - confidence."""
    if not 0 < confidence < 1:
        raise InputError(f"confidence is {confidence}, but must be between 0 and 1: 0.95, say.")
    return 1 - confidence


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What is guaranteed at one beta, or, in arrays, along the betas of a curve.

    Every bound is the current value of a confidence sequence, made by betting: it holds, by itself,
    with the stated confidence at any number of draws. ``curve.guarantees[i]`` is that at point i.

    Attributes
    ----------
    tvd, truncated_mass, kl : float or None, or array (Q,)
        Upper confidence bounds; None where nothing can be guaranteed.
    acceptance_rate : tuple of float, or array (Q, 2)
        The lower and upper end.
    moments : dict
        For each feature with declared bounds: the lower and upper end of its mean under p_beta.
    confidence : float
    basis : str
        One sentence: what the guarantee rests on, or why there is none and what would give one.

    Examples
    --------
    >>> import quasir as qr
    >>> base = qr.Table({"she": 0.1, "he": 0.9})
    >>> curve = qr.tradeoff(qr.draw(base * qr.features.female, base, 10_000, seed=0))
    >>> guarantee = curve.at(beta=0.9).guarantee
    >>> guarantee.confidence, bool(guarantee.tvd <= 1)
    (0.95, True)
    >>> len(curve.guarantees.tvd) == len(curve)
    True
    """

    tvd: Any
    truncated_mass: Any
    kl: Any
    acceptance_rate: Any
    moments: dict[str, Any]
    confidence: float
    basis: str

    def __getitem__(self, i: int) -> Guarantee:
        if isinstance(self.acceptance_rate, tuple):
            raise InputError("this guarantee is for one beta: only those of a curve have points.")
        bounds: dict[str, Any] = {
            name: None if (x := getattr(self, name)) is None else float(x[i]) + 0.0  # not -0
            for name in GUARANTEED
        }
        return replace(
            self,
            **bounds,
            acceptance_rate=tuple(self.acceptance_rate[i].tolist()),
            moments={name: tuple(ends[i].tolist()) for name, ends in self.moments.items()},
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        return {
            **{name: getattr(self, name) for name in GUARANTEED},
            "acceptance_rate": list(self.acceptance_rate),
            "moments": {name: list(ends) for name, ends in self.moments.items()},
            "confidence": self.confidence,
            "basis": self.basis,
        }

    def __str__(self) -> str:
        known = {"TVD at most": self.tvd, "truncated mass": self.truncated_mass, "KL": self.kl}
        parts = [f"{name} {rounded_up(x):.3g}" for name, x in known.items() if x is not None]
        return ", ".join(parts) or "nothing about TVD"


def guarantees(
    binned: BinnedDraws, log_betas: Array, assumptions: Assumptions, *, confidence: float = 0.95
) -> Guarantee:
    """Return the guarantees at each level; for a level that they choose, see `guaranteed_level`."""
    log_betas = np.asarray(log_betas, np.float64)
    half = as_alpha(confidence) / 2
    upper: dict[str, Array | None] = {}
    for quantity in GUARANTEED:
        bet = assumptions.bet_on(quantity, confidence)
        upper[quantity] = None if bet is None else upper_bounds(quantity, binned, log_betas, **bet)
    limits = (acceptance_rate_at_least, acceptance_rate_at_most)
    rate = [bound(binned, log_betas, alpha=half) for bound in limits]
    ends = {name: moment_bounds(binned, name, log_betas, alpha=half) for name in binned.bounds}
    return Guarantee(
        **upper,
        acceptance_rate=np.stack(rate, axis=1),
        moments={name: np.stack(pair, axis=1) for name, pair in ends.items()},
        confidence=confidence,
        basis=assumptions.basis,
    )


def guaranteed_level(
    binned: BinnedDraws,
    quantity: str,
    most: float,
    assumptions: Assumptions,
    *,
    confidence: float = 0.95,
) -> float | None:
    """Return the least log beta from which on a quantity is guaranteed to be at most `most`.

    The choice itself is covered, at any number of draws and any look. None if there is no such.
    """
    bet = assumptions.bet_on(quantity, confidence)
    if bet is None:
        return None

    def holds(log_beta: float) -> bool:
        return is_shown(quantity, binned, log_beta, most, **bet)

    ceiling = assumptions.log_ceiling
    high = ceiling if ceiling < math.inf else binned.log_top
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
    # The bound printed at this beta is found by another search: it must not be above `most`.
    while high < ceiling and upper_bounds(quantity, binned, np.array([high]), **bet)[0] > most:
        high = min(high + WITHIN, ceiling)
    return high


LEVELS = 0.004 * 1.088 ** np.arange(64.0)
"""The levels tau, from 0.004 to 0.81, fixed beforehand; each has an equal part of alpha.

At each, the product over all contexts of (1 - e + e times the wealth against "TVD > tau") stays
below 1/alpha with confidence 1 - alpha, whatever chose betas and numbers of draws, and so bounds
how many contexts are above tau (docs/records/proofs.md).
"""


@dataclass(frozen=True)
class MeanGuarantee:
    """What is guaranteed about all contexts together."""

    tvd: float  # the mean of TVD over the served contexts is at most this
    contexts: int  # how many contexts it is about
    above: NDArray[np.int64]  # for each of `LEVELS`: at most so many of them have a TVD above it
    confidence: float  # all of it holds together with this, whenever it is looked at


@dataclass(frozen=True)
class Evidence:
    """What is known about the TVD of one context."""

    log_wealth: Array  # against "TVD > tau" at `LEVELS`; -inf where nothing can be guaranteed
    most: float  # TVD is at most this for certain: 1 - sqrt(beta/M), and 1 without a ceiling M


NO_EVIDENCE = Evidence(np.full(len(LEVELS), -np.inf), 1.0)


def tvd_evidence(binned: BinnedDraws, log_beta: float, assumptions: Assumptions) -> Evidence:
    """Return what the draws of one context show about TVD at a beta."""
    ceiling, log_z = assumptions.log_ceiling, assumptions.log_z
    # A bound on Z that may fail itself is not enough here.
    if ceiling == math.inf and (log_z is None or assumptions.spent):
        return NO_EVIDENCE
    most = float(ceiling_bound("tvd", np.array(ceiling - log_beta)))
    if most == 0:
        return Evidence(np.full(len(LEVELS), np.inf), 0.0)
    log_z = log_z if ceiling == math.inf else None
    if log_beta <= (ceiling if log_z is None else binned.log_top) - FAR:
        return NO_EVIDENCE
    bet = Bet(binned, np.full(len(LEVELS), log_beta), ceiling, log_z)
    return Evidence(bet.tvd(LEVELS, np.arange(len(LEVELS))), most)


def most_above(log_wealth: Array, contexts: int, log_need: float) -> int:
    """Return how many contexts can be above a level."""
    # The fractions e, from 0.9 to about 1/contexts.
    fractions = [0.9, *(2.0**-j for j in range(1, max(contexts, 1).bit_length() + 2))]
    need = log_need + math.log(len(fractions))
    wealth = np.sort(log_wealth)
    most = len(wealth)
    for e in fractions:
        # A context that is above adds this to the log of the product, any other at least 0.
        gain = np.logaddexp(math.log1p(-e), math.log(e) + wealth) - math.log1p(-e)
        room = need - contexts * math.log1p(-e)
        most = min(most, int(np.searchsorted(np.cumsum(gain), room)))
    return most


def mean_guarantee(
    evidence: Sequence[Evidence], contexts: int, confidence: float = 0.95
) -> MeanGuarantee | None:
    """Return the guarantee about the mean TVD of the served contexts, or None if there is none."""
    # TVD is the integral over tau of "TVD > tau": its mean is that of the share above tau.
    alpha = as_alpha(confidence)
    log_wealth = np.stack([part.log_wealth for part in evidence])
    served = len(log_wealth)
    if not (log_wealth > -np.inf).any():
        return None
    need = math.log(len(LEVELS)) - math.log(alpha)
    above = np.minimum.accumulate(
        [most_above(column, contexts, need) for column in log_wealth.T]
    ).astype(np.int64)
    # Below the first level every context counts, up to what is certain for it.
    most = np.sort([part.most for part in evidence])[::-1]
    starts, ends = np.concatenate([[0.0], LEVELS]), np.concatenate([LEVELS, [1.0]])
    total = sum(
        float(np.clip(most[:count] - start, 0.0, end - start).sum())
        for count, start, end in zip([served, *above], starts, ends, strict=True)
    )
    return MeanGuarantee(total / served, served, above, confidence)
