"""What a ceiling of the ratios alone says about p_beta, whatever the draws (docs/promises.md)."""

from __future__ import annotations

import numpy as np

from quasir.core.types import Array

__all__ = ["CERTAIN", "certain"]

CERTAIN = ("tvd", "lost", "kl")
"""The quantities that a ceiling bounds."""


def certain(quantity: str, rise: Array) -> Array:
    """Return upper bounds at rise = log(M/beta), for a ceiling M of the ratios.

    TVD is at most 1 - e^(-rise/2), lost at most 1 - e^-rise, and KL at most rise - 1 + e^-rise.

    Examples
    --------
    >>> [float(certain(name, np.array(1.0)).round(3)) for name in CERTAIN]
    [0.393, 0.632, 0.368]
    """
    rise = np.maximum(rise, 0.0)
    if quantity == "kl":
        # Where the rise is small, a series: the difference would cancel.
        small = np.minimum(rise, 1e-3)
        series = small**2 * (0.5 - small * (1 / 6 - small * (1 / 24 - small / 120)))
        most: Array = np.where(rise < 1e-3, series, rise + np.expm1(-rise))
        return most
    less: Array = -np.expm1(-rise / 2 if quantity == "tvd" else -rise)
    return less
