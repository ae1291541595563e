"""Targets P(x) = a(x) b(x): features, factors, products."""

from quasir.core.types import Scorer
from quasir.targets.factors import Factor, Tilt, reward, tilt
from quasir.targets.feature import Feature
from quasir.targets.product import Conditional, Product, Scores

__all__ = [
    "Conditional",
    "Factor",
    "Feature",
    "Product",
    "Scorer",
    "Scores",
    "Tilt",
    "reward",
    "tilt",
]
