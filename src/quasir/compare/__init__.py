"""Samplers compared at equal cost, on one pool of draws (appendices F and G).

`compare` makes the paper's tables `tab:ext_female_science` and `tab:ext_amazing` for any stored
draws.
"""

from quasir.compare.comparison import SAMPLERS, Comparison, compare
from quasir.compare.measures import Row

__all__ = ["SAMPLERS", "Comparison", "Row", "compare"]
