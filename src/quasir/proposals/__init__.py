"""Proposals: distributions that can be drawn from and scored."""

from quasir.proposals.mixture import Mixture
from quasir.proposals.scipy_stats import ScipyDistribution, from_scipy
from quasir.proposals.table import Table

__all__ = ["Mixture", "ScipyDistribution", "Table", "from_scipy"]
