"""Samplers compared at equal cost, on one pool of draws (appendices F and G of the paper)."""

from quasir.compare.comparison import SAMPLERS, compare, compare_recipe
from quasir.compare.sampler_table import Comparison, Row

__all__ = ["SAMPLERS", "Comparison", "Row", "compare", "compare_recipe"]
