"""Samplers beside each other at equal cost, from one pool of draws (appendices F and G).

`compare` makes the paper's tables `tab:ext_female_science` and `tab:ext_amazing` for any stored
draws, and `variance` its table `tab:is-variance`.
"""

from quasir.compare.comparison import SAMPLERS, Comparison, Row, compare
from quasir.compare.spread import Variance, variance

__all__ = ["SAMPLERS", "Comparison", "Row", "Variance", "compare", "variance"]
