"""A number with its uncertainty, and the key that names what it estimates."""

from __future__ import annotations

import html
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from quasir.errors import InputError

Z95 = 1.959963984540054  # the 97.5 % quantile of the standard normal


def _comparison(operation: Callable[[Any, Any], Any]) -> Callable[[Estimate, Any], Any]:
    """Return a method that compares the value with a number, an array, or another's value."""

    def compared(ours: Estimate, other: Any) -> Any:
        theirs = other.value if isinstance(other, Estimate) else other
        if isinstance(theirs, bool) or np.asarray(theirs).dtype.kind not in "iuf":
            return NotImplemented
        result = operation(ours.value, theirs)
        return result if np.ndim(result) else bool(result)

    return compared


@dataclass(frozen=True, repr=False)
class Estimate:
    """An estimate with its standard error and 95 % interval; numbers, or arrays along a curve.

    `se` is the delta-method standard error of `value`, or NaN where the draws do not determine it.
    The interval keeps to the quantity's range and allows for a skewed tail. Only where `proved` is
    True is the value certain; that all draws agree proves nothing about other items.

    It compares, rounds and formats as its value does; an order with NaN is False. Two estimates are
    equal (``==``) if all four numbers are; an estimate is not equal to any number.

    Examples
    --------
    >>> tvd = Estimate(0.0035, 0.0001, 0.0033, 0.0037)
    >>> print(tvd)
    0.0035 ± 0.0001 [0.0033, 0.0037]
    >>> tvd < 0.1, f"{tvd:.3f}", round(tvd, 3)
    (True, '0.004', 0.004)
    >>> print(Estimate(0.0, 0.0, 0.0, 0.0, proved=True))
    0, for certain
    >>> print(Estimate(3.0, 0.0, 3.0, 3.0))
    3 on these draws
    """

    value: Any
    se: Any
    low: Any
    high: Any
    proved: Any = False

    # numpy leaves operators such as ``array < estimate`` to this class.
    __array_ufunc__ = None

    def __getitem__(self, i: Any) -> Estimate:
        """Return the estimate at point i of a curve, or at a slice of its points."""
        if not np.ndim(self.value):
            raise InputError("this estimate is one number: only those of a curve have points.")
        picked = [np.asarray(part)[i] for part in (self.value, self.se, self.low, self.high)]
        value, se, low, high = (float(x) if np.ndim(x) == 0 else x for x in picked)
        proved = np.broadcast_to(self.proved, np.shape(self.value))[i]
        return Estimate(value, se, low, high, proved if np.ndim(proved) else bool(proved))

    def __float__(self) -> float:
        if np.ndim(self.value):
            raise InputError(f"these are estimates at {len(self.value)} points: take one, as [3].")
        return float(self.value)

    def __bool__(self) -> bool:
        raise InputError("an estimate is neither true nor false: compare it, as cert.tvd < 0.1.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Estimate):
            return NotImplemented
        ours, theirs = ((e.value, e.se, e.low, e.high) for e in (self, other))
        if not (np.ndim(self.value) or np.ndim(other.value)):
            return ours == theirs
        return all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))

    def __hash__(self) -> int:
        return hash((float(self), self.se, self.low, self.high))

    __lt__ = _comparison(operator.lt)
    __le__ = _comparison(operator.le)
    __gt__ = _comparison(operator.gt)
    __ge__ = _comparison(operator.ge)

    def __round__(self, ndigits: int | None = None) -> float:
        value = float(self)
        return round(value, ndigits) if math.isfinite(value) else value

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else str(self)

    def __str__(self) -> str:
        if np.ndim(self.value):
            return f"<estimates at {len(self.value)} points>"
        interval = f"[{self.low:.4g}, {self.high:.4g}]"
        if math.isnan(self.value):
            return f"unknown {interval}"
        if self.value == self.low == self.high:
            return f"{self.value:.4g}{', for certain' if self.proved else ' on these draws'}"
        if math.isnan(self.se):
            return f"{self.value:.4g} on these draws {interval}"
        return f"{self.value:.4g} ± {self.se:.2g} {interval}"

    def __repr__(self) -> str:
        return f"<Estimate {self}>" if np.ndim(self.value) == 0 else str(self)

    def _repr_html_(self) -> str:
        return html.escape(str(self))

    def to_dict(self) -> dict[str, float | None]:
        """Return a JSON-ready dictionary; a number that is not finite becomes None."""
        float(self)
        numbers = {"value": self.value, "se": self.se, "low": self.low, "high": self.high}
        return {name: float(x) if math.isfinite(x) else None for name, x in numbers.items()}


def kish_ess(total: float, squares: float) -> float:
    """Return Kish's effective sample size of weights, (sum w)^2/sum w^2; 0 if all are 0."""
    return total**2 / squares if squares else 0.0


class Moment(NamedTuple):
    """The mean of a feature under p_beta, Eq. 8 (`eq:qrs_moment`), as a key among estimates.

    Examples
    --------
    >>> str(Moment("female"))
    'moment:female'
    """

    feature: str

    def __str__(self) -> str:
        return f"moment:{self.feature}"


Key: TypeAlias = str | Moment
"""The key of an estimate: a quantity's name, or the moment of a feature."""
