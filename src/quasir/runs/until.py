"""Wishes that end a run: a precision of an estimate, or a promise."""

from __future__ import annotations

import re
from dataclasses import dataclass

from quasir.certificates.certificate import Certificate
from quasir.certificates.curve import Curve
from quasir.core.formatting import level_text
from quasir.errors import InputError, UnreachableError
from quasir.estimation.estimate import Estimate

__all__ = ["Precision", "Promised", "until"]

NUMBER = r"([0-9.eE+-]+)"


def until(text: str) -> Precision | Promised:
    """Return the wish that a text states.

    Examples
    --------
    >>> until("tvd<=0.1"), until("ess=1000")
    (Promised(name='tvd', most=0.1), Precision(name='ess', most=None, least_ess=1000.0))
    """
    precision = re.fullmatch(rf"(ess|(.+)_se)\s*=\s*{NUMBER}", text.strip())
    promised = re.fullmatch(rf"(tvd|kl)\s*<=\s*{NUMBER}", text.strip())
    match = precision or promised
    try:
        value = float(match[match.lastindex or 0]) if match else -1.0
    except ValueError:
        value = -1.0
    if not value > 0:
        raise InputError(
            f"{text!r} is nothing to stop at: give a promise, as in tvd<=0.1, the standard error "
            "of an estimate, as in tvd_se=0.005 or moment:female_se=0.01, or an effective sample "
            "size, as in ess=1000."
        )
    if promised is not None:
        return Promised(promised[1], value)
    assert precision is not None
    if precision[2] is None:
        return Precision("ess", least_ess=value)
    return Precision(precision[2], most=value)


@dataclass(frozen=True)
class Precision:
    """A wish for the precision of an estimate, such as ``tvd_se=0.005`` or ``ess=1000``."""

    name: str
    most: float | None = None
    least_ess: float | None = None

    def reached(self, certificate: Certificate, curve: Curve) -> bool:
        """Return whether a certificate has this precision; a standard error of NaN has none."""
        if self.least_ess is not None:
            return certificate.ess >= self.least_ess
        assert self.most is not None
        return bool(self._estimate(certificate).se <= self.most)

    def describe(self, certificate: Certificate) -> str:
        """Return the precision of a certificate in words."""
        at = f"at beta = {level_text(certificate.log_beta)}, from {certificate.n:,} draws"
        if self.least_ess is not None:
            return f"the effective sample size is {certificate.ess:,.0f} {at}"
        return f"{self.name} is {self._estimate(certificate)} {at}"

    def _estimate(self, certificate: Certificate) -> Estimate:
        return certificate.estimate(self.name)


@dataclass(frozen=True)
class Promised:
    """A wish for a promise at the recipe's beta, such as ``tvd<=0.1``.

    It is right under continuous watching, and also where the draws choose beta: the least beta at
    which the wish is promised is promised together with all larger ones (docs/promises.md).
    """

    name: str
    most: float

    def reached(self, certificate: Certificate, curve: Curve) -> bool:
        """Return whether the wish is promised at the certificate's beta."""
        promise = certificate.promise
        if promise is None:
            return False
        try:
            least = curve.at(**{self.name: self.most}, confidence=promise.confidence)
        except UnreachableError:
            return False
        return least.log_beta <= certificate.log_beta

    def describe(self, certificate: Certificate) -> str:
        """Return the promise in words."""
        assert certificate.promise is not None
        return (
            f"{self.name} <= {self.most:g} is promised (confidence "
            f"{certificate.promise.confidence:g}) at beta = {level_text(certificate.log_beta)}, "
            f"from {certificate.n:,} draws"
        )
