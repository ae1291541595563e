"""A number with its uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from quasir.core.types import Array

__all__ = ["Z95", "Estimate", "log_interval", "wilson_interval"]

Z95 = 1.959963984540054
"""The 97.5 % quantile of the standard normal."""


@dataclass(frozen=True)
class Estimate:
    """An estimate with its standard error and 95 % interval; numbers, or arrays along a curve.

    `se` is the delta-method standard error of `value`. The interval need not be
    ``value +- 1.96 se``: it keeps to the quantity's range and allows for a skewed tail.
    A `se` of NaN says that the draws do not determine it.

    Examples
    --------
    >>> print(Estimate(0.0035, 0.0001, 0.0033, 0.0037))
    0.0035 ± 0.0001 [0.0033, 0.0037]
    >>> print(Estimate(0.0, 0.0, 0.0, 0.0))
    0, for certain
    """

    value: Any
    se: Any
    low: Any
    high: Any

    def __getitem__(self, i: int) -> Estimate:
        """Return the estimate at point i of a curve."""
        return Estimate(*(float(part[i]) for part in (self.value, self.se, self.low, self.high)))

    def __float__(self) -> float:
        return float(self.value)

    def __str__(self) -> str:
        if np.ndim(self.value):
            return f"<estimates at {len(self.value)} points>"
        interval = f"[{self.low:.4g}, {self.high:.4g}]"
        if math.isnan(self.value):
            return f"unknown {interval}"
        if self.value == self.low == self.high:
            return f"{self.value:.4g}, for certain"
        if math.isnan(self.se):
            return f"{self.value:.4g} on these draws {interval}"
        return f"{self.value:.4g} ± {self.se:.2g} {interval}"

    def to_dict(self) -> dict[str, float | None]:
        """Return a JSON-ready dictionary; a number that is not finite becomes None."""
        numbers = {"value": self.value, "se": self.se, "low": self.low, "high": self.high}
        return {name: float(x) if math.isfinite(x) else None for name, x in numbers.items()}


def log_interval(value: Array, se: Array) -> tuple[Array, Array]:
    """Return value * exp(-+ 1.96 se/value), the interval of a positive quantity.

    For few hits it is close to the exact interval of a Poisson count, which is equally skewed.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        factor = np.exp(Z95 * np.where(value > 0, se / value, 0.0))
        return value / factor, value * factor


def wilson_interval(value: Array, n: Array) -> tuple[Array, Array]:
    """Return Wilson's score interval for a proportion of n draws (n need not be an integer)."""
    middle = (value + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    half = Z95 / (1 + Z95**2 / n) * np.sqrt(value * (1 - value) / n + Z95**2 / (4 * n**2))
    return np.clip(middle - half, 0.0, value), np.clip(middle + half, value, 1.0)
