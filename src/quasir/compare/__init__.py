"""Samplers compared at equal cost, on one pool of draws (appendices F and G).

`compare` makes the paper's tables `tab:ext_female_science` and `tab:ext_amazing` for any stored
draws, and `variance` makes its table `tab:is-variance`.
"""

from quasir.compare.comparison import SAMPLERS, Comparison, compare
from quasir.compare.rows import Row
from quasir.compare.spread import Variance, variance

__all__ = ["SAMPLERS", "Comparison", "Row", "Variance", "compare", "variance"]
