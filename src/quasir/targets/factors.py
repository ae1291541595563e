"""The factors of b(x): constraints and tilts, each a function of one feature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import number
from quasir.core.formatting import short_repr
from quasir.core.types import Array
from quasir.errors import FeatureError, InputError
from quasir.targets.feature import Feature, check_feature


class Factor(Protocol):
    """A factor of b(x), a function of one feature.

    It may also have ``log_most()``, the log of the largest value that any item can have: the ratios
    then have a ceiling (`quasir.draws.ceiling`).

    Examples
    --------
    >>> import quasir as qr
    >>> factor: Factor = qr.tilt(qr.features.female, 0.7)
    >>> factor.feature.name, factor.log_factor(factor.feature(["She sings.", "He sings."]))
    ('female', array([0.7, 0. ]))
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

    def __post_init__(self) -> None:
        check_feature(self.feature)

    def log_factor(self, column: NDArray[Any]) -> Array:
        """Return 0 or -inf."""
        return np.where(self.feature.as_boolean(column), 0.0, -np.inf)

    def log_most(self) -> float:
        """Return 0, the log of 1: values of the feature other than 0 and 1 are refused."""
        return 0.0

    def __str__(self) -> str:
        return f"[{self.feature.name}]"


@dataclass(frozen=True)
class Tilt:
    """exp(coefficient * phi(x)): an exponential tilt.

    Examples
    --------
    >>> import quasir as qr
    >>> Tilt(qr.features.contains("a"), 0.7).coefficient
    0.7
    """

    feature: Feature
    coefficient: float

    def __post_init__(self) -> None:
        check_feature(self.feature)
        value = number("coefficient", self.coefficient)
        if not np.isfinite(value):
            raise InputError("an infinite tilt is a pointwise constraint: use base * feature.")
        object.__setattr__(self, "coefficient", value)

    def log_factor(self, column: NDArray[Any]) -> Array:
        """Return coefficient * phi."""
        with np.errstate(over="ignore"):
            logs: Array = self.coefficient * column.astype(np.float64)
        if np.isinf(logs).any():
            raise FeatureError(
                f"exp({self.coefficient:g} phi) is outside any range where phi, the feature "
                f"{self.feature.name!r}, is {column[np.isinf(logs)][0]:g}."
            )
        return logs

    def log_most(self) -> float:
        """Return the log of the factor's largest value, by what the feature declares."""
        if self.coefficient == 0:
            return 0.0
        return max(self.coefficient * end for end in self.feature.bounds)

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
    return Tilt(feature, coefficient)


def reward(function: Feature | Callable[[Any], float], temperature: float = 1.0) -> Tilt:
    """Return the factor exp(r(x)/temperature) of KL-regularised reinforcement learning.

    A plain callable becomes a feature named ``reward``. A reward that is bounded gives a ceiling of
    the ratios if it says so: ``reward(qr.Feature("reward", function, high=1.0))``.

    Examples
    --------
    >>> import quasir as qr
    >>> letters = qr.Table({"a": 0.5, "bb": 0.5})
    >>> target = letters * reward(len, temperature=2.0)
    >>> target.log_score(["a", "bb"]).round(3).tolist()
    [-0.193, 0.307]
    """
    value = number("temperature", temperature)
    if not 0 < value < np.inf or 1.0 / value == np.inf:
        raise InputError(
            f"temperature is {short_repr(temperature)}, but it and its inverse must be finite and "
            "above 0."
        )
    feature = function if isinstance(function, Feature) else Feature("reward", function)
    return Tilt(feature, 1.0 / value)
