"""Checks of moments: observed and predicted, and wanted, of the target and of p_beta."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from quasir.certificates.certificate import Certificate
from quasir.certificates.curve import Curve
from quasir.estimation.estimate import Estimate

MAX_Z = 4.0  # a larger |z| comes by chance once in 16,000 checks, so the two moments disagree


@dataclass(frozen=True, kw_only=True)
class Check:
    """One moment, observed and predicted, each with its standard error.

    Examples
    --------
    >>> from dataclasses import replace
    >>> good = Check(name="female", observed=0.49, observed_se=0.01, predicted=0.50,
    ...              predicted_se=0.01, z=-0.7)
    >>> good.suspicious, replace(good, observed=0.42, z=-5.7).suspicious
    (False, True)
    """

    name: str
    observed: float
    observed_se: float
    predicted: float
    predicted_se: float
    z: float

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary; a number that is not finite becomes None."""
        return {
            key: value if isinstance(value, str) or math.isfinite(value) else None
            for key, value in asdict(self).items()
        }

    @property
    def suspicious(self) -> bool:
        """Whether the two moments disagree by more than chance explains."""
        return abs(self.z) > MAX_Z


@dataclass(frozen=True, kw_only=True)
class WantedMoment:
    """A wanted moment, and the moments that the target and p_beta have."""

    name: str  # of the feature
    moment: float
    target: Estimate  # the moment of p itself: at the largest ratio no ratio is cut
    at_beta: Estimate  # the moment of p_beta
    # The distance of p_beta from p, which the moment of a boolean feature cannot differ by more
    # than; None for other features, whose moment it does not bound.
    tvd: Estimate | None

    @property
    def z(self) -> float:
        """The target's moment less the constraint, in standard errors; NaN if it is not known."""
        difference, se = float(self.target.value) - self.moment, float(self.target.se)
        if abs(difference) <= 1e-9 * max(1.0, abs(self.moment)):
            return 0.0
        return difference / se if se else math.copysign(math.inf, difference)

    @property
    def warning(self) -> str | None:
        """The warning that the target misses the constraint, in words, or None."""
        if not abs(self.z) > MAX_Z:
            return None
        far = f"{abs(self.z):.1f} of its standard errors away" if self.target.se else "exactly"
        return (
            f"{self.name} should have a mean of {self.moment:g}, but the target itself has "
            f"{self.target.value:.4g} ± {self.target.se:.2g} ({far}): even exact samples of this "
            "target miss the constraint. Fit lambda on more draws, or check a lambda that was "
            "given."
        )


def wanted_moments(
    curve: Curve,
    certificate: Certificate,
    constraints: Mapping[str, float],
    boolean: Collection[str] = (),
) -> tuple[WantedMoment, ...]:
    """Compare each constraint with the target's moment on the curve's draws."""
    if not curve.n_possible:
        return ()
    exact = curve.at(log_beta=curve.tail.log_max).moments
    return tuple(
        WantedMoment(
            name=name,
            moment=float(moment),
            target=exact[name],
            at_beta=certificate.moments[name],
            tvd=certificate.tvd if name in boolean else None,
        )
        for name, moment in constraints.items()
        if name in exact and name in certificate.moments
    )
