"""Targets P(x) = a(x) b(x): features, factors, products."""

from quasir.core.types import Scorer
from quasir.targets.feature import Feature
from quasir.targets.product import Conditional, Factor, Product, Scores, Tilt, reward, tilt

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
