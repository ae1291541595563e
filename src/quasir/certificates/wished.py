"""What was wished for a feature, what the target has, and what the chosen beta allows."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from quasir.certificates.certificate import Certificate
from quasir.certificates.check import MAX_Z
from quasir.certificates.curve import Curve
from quasir.estimation.estimate import Estimate

__all__ = ["Wished", "wished_of"]


@dataclass(frozen=True, kw_only=True)
class Wished:
    """A wished moment, and the moments that the target and p_beta have.

    Attributes
    ----------
    name : str
        Name of the feature.
    wish : float
    target : Estimate
        The moment of p itself: at the largest ratio no ratio is cut.
    at_beta : Estimate
        The moment of p_beta.
    tvd : Estimate or None
        The distance of p_beta from p, which the moment of a boolean feature cannot differ by more
        than; None for other features, whose moment it does not bound.

    Examples
    --------
    >>> half = Estimate(0.5, 0.01, 0.48, 0.52)
    >>> met = Wished(name="she", wish=0.5, target=half, at_beta=half, tvd=None)
    >>> missed = Wished(name="she", wish=0.6, target=half, at_beta=half, tvd=None)
    >>> met.doubt is None, round(missed.z, 6)
    (True, -10.0)
    """

    name: str
    wish: float
    target: Estimate
    at_beta: Estimate
    tvd: Estimate | None

    @property
    def z(self) -> float:
        """The target's moment less the wish, in standard errors; NaN if it is not known."""
        difference, se = float(self.target.value) - self.wish, float(self.target.se)
        if abs(difference) <= 1e-9 * max(1.0, abs(self.wish)):
            return 0.0
        return difference / se if se else math.copysign(math.inf, difference)

    @property
    def doubt(self) -> str | None:
        """The doubt that the target misses the wish, in words, or None."""
        if not abs(self.z) > MAX_Z:
            return None
        far = f"{abs(self.z):.1f} of its standard errors away" if self.target.se else "exactly"
        return (
            f"{self.name} was wished to be {self.wish:g} in the mean, but the target itself has "
            f"{self.target.value:.4g} ± {self.target.se:.2g} ({far}): even exact samples of this "
            "target miss the wish. Fit lambda on more draws, or check a lambda that was given."
        )


def wished_of(
    curve: Curve,
    certificate: Certificate,
    wishes: Mapping[str, float],
    boolean: Collection[str] = (),
) -> tuple[Wished, ...]:
    """Compare each wish with the target's moment on the curve's draws.

    Parameters
    ----------
    curve : Curve
    certificate : Certificate
        The certificate at the chosen beta.
    wishes : mapping
        Name of a feature -> its wished mean; features without a column are left out.
    boolean : collection of str
        The features that are true or false.

    Examples
    --------
    >>> import quasir as qr
    >>> she = qr.Feature("she", lambda x: x == "she")
    >>> base = qr.Table({"he": 0.5, "she": 0.5})
    >>> draws = qr.draw(base * qr.tilt(she, 1.0), base, 20_000, seed=0)
    >>> curve = qr.tradeoff(draws)
    >>> (wished,) = wished_of(curve, curve.at(beta=1), {"she": 0.5}, ["she"])
    >>> wished.doubt[:66]
    'she was wished to be 0.5 in the mean, but the target itself has 0.'
    """
    if not curve.n_possible:
        return ()
    exact = curve.at(log_beta=curve.tail.log_max).moments
    return tuple(
        Wished(
            name=name,
            wish=float(wish),
            target=exact[name],
            at_beta=certificate.moments[name],
            tvd=certificate.tvd if name in boolean else None,
        )
        for name, wish in wishes.items()
        if name in exact and name in certificate.moments
    )
