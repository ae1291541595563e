"""The estimates for the user: the curve along beta, and the certificate at one beta."""

from quasir.certificates.certificate import Certificate, Check, Choice
from quasir.certificates.curve import Curve, tradeoff
from quasir.estimation.estimate import Estimate, Moment
from quasir.estimation.guarantee import Guarantee

__all__ = [
    "Certificate",
    "Check",
    "Choice",
    "Curve",
    "Estimate",
    "Guarantee",
    "Moment",
    "tradeoff",
]
