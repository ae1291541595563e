"""The factors of b(x): constraints and tilts, each a function of one feature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import number
from quasir.core.types import Array
from quasir.errors import InputError
from quasir.targets.feature import Feature

__all__ = ["Factor", "Pointwise", "Tilt", "reward", "tilt"]


class Factor(Protocol):
    """A factor of b(x), a function of one feature.

    It may also have ``log_most(boolean)``, the log of its largest value, given whether the feature
    is boolean: the ratios then have a ceiling (`quasir.draws.ceiling`).
    """

    @property
    def feature(self) -> Feature:
        """The feature that this is a function of."""
        ...

    def log_factor(self, column: NDArray[Any]) -> Array:
        """Return the log of the factor from the feature's column."""
        ...


@dataclass(frozen=True)
class Pointwise:
    """1 where the feature fires, else 0."""

    feature: Feature

    def log_factor(self, column: NDArray[Any]) -> Array:
        """Return 0 or -inf."""
        return np.where(self.feature.as_boolean(column), 0.0, -np.inf)

    def log_most(self, boolean: bool) -> float:
        """Return the log of the factor's largest value."""
        return 0.0

    def __str__(self) -> str:
        return f"[{self.feature.name}]"


@dataclass(frozen=True)
class Tilt:
    """exp(coefficient * phi(x)): an exponential tilt."""

    feature: Feature
    coefficient: float

    def log_factor(self, column: NDArray[Any]) -> Array:
        """Return coefficient * phi."""
        return self.coefficient * column.astype(np.float64)

    def log_most(self, boolean: bool) -> float:
        """Return the log of the factor's largest value; infinite if the feature is not boolean."""
        return max(self.coefficient, 0.0) if boolean else np.inf

    def __rmul__(self, base: Any) -> Any:
        """Return base * tilt."""
        from quasir.targets.product import multiply

        return multiply(base, self)

    def __str__(self) -> str:
        return f"exp({self.coefficient:.4g} {self.feature.name})"


def tilt(feature: Feature, coefficient: float) -> Tilt:
    """Return the factor exp(coefficient phi(x)).

    Examples
    --------
    >>> import quasir as qr
    >>> short = qr.Feature("letters", len)
    >>> target = qr.Table({"a": 0.5, "bb": 0.5}) * qr.tilt(short, np.log(3))
    >>> np.exp(target.log_score(["a", "bb"])).round(6)
    array([1.5, 4.5])
    """
    if not isinstance(feature, Feature):
        raise InputError(f"tilt takes a Feature, not a {type(feature).__name__}.")
    value = number("coefficient", coefficient)
    if not np.isfinite(value):
        raise InputError("an infinite tilt is a pointwise constraint: use base * feature.")
    return Tilt(feature, value)


def reward(function: Feature | Callable[[Any], float], temperature: float = 1.0) -> Tilt:
    """Return the factor exp(r(x)/temperature) of KL-regularised reinforcement learning.

    A plain callable becomes a feature named ``reward``.
    """
    value = number("temperature", temperature)
    if not value > 0:
        raise InputError(f"temperature is {temperature!r}, but must be above 0.")
    feature = function if isinstance(function, Feature) else Feature("reward", function)
    return Tilt(feature, 1.0 / value)
