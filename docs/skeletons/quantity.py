"""A quantity to copy: the proposals that a sample costs, 1/AR.

In quasir the declaration stands in `estimation/quantities.py`, in the list, and the formula in
`estimation/formulas.py`, with a line in `estimate`.
"""

from __future__ import annotations

import math

import numpy as np

from quasir.estimation.formulas import Pair, _se, _Terms
from quasir.estimation.quantities import Interval, Quantity

QUANTITY = Quantity(
    name="proposals_per_sample",
    title="proposals per sample",
    heading="Proposals per sample",
    meaning="what a sample costs",
    low=1.0,
    high=math.inf,
    interval=Interval.NORMAL,
)


def proposals_per_sample(t: _Terms) -> Pair:
    """Return 1/AR (Eq. 2, `eq:ar`) and its standard error, by the delta method: 1/AR (v - 1)."""
    value = np.exp(-t.log_rate)
    return np.maximum(value, 1.0), value * _se(t.variance_v, t.sums.n)
