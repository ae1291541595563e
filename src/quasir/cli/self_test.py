"""A self-test of a few seconds: two Poissons, whose exact values are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scipy import stats

from quasir.certificates.tradeoff import tradeoff
from quasir.draws.draw import draw
from quasir.proposals import from_scipy

__all__ = ["EXACT", "Comparison", "self_test"]

BETA = 2.0
EXACT = {"acceptance_rate": 0.498182, "tvd": 0.00353111, "kl": 0.00048655}
"""Poisson(11) from Poisson(10) at beta = 2, by summation over the integers."""
DRAWS = 200_000
MOST = 5.0
"""Standard errors that an estimate may be away; by chance it is further once in a million."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """An estimate and the exact value."""

    name: str
    value: float
    se: float
    exact: float

    @property
    def passed(self) -> bool:
        """Whether they differ by no more than chance explains."""
        return abs(self.value - self.exact) <= MOST * self.se

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        numbers = {"value": self.value, "se": self.se, "exact": self.exact}
        return {"name": self.name, **numbers, "passed": self.passed}


def self_test(seed: int = 0) -> list[Comparison]:
    """Draw Poisson(11) from Poisson(10), and compare the certificate with the exact values.

    Examples
    --------
    >>> all(one.passed for one in self_test())
    True
    """
    target, proposal = from_scipy(stats.poisson(11)), from_scipy(stats.poisson(10))
    certificate = tradeoff(draw(target, proposal, DRAWS, seed=seed)).at(beta=BETA)
    found = {name: certificate.estimate(name) for name in EXACT}
    return [
        Comparison(name=name, value=float(part.value), se=float(part.se), exact=EXACT[name])
        for name, part in found.items()
    ]
