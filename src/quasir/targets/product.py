"""Targets P(x) = a(x) b(x): a base times factors, each a function of one feature.

``base * feature`` keeps the items that fire a boolean feature, ``base * tilt(feature, c)``
multiplies by exp(c phi(x)). The cheap factors are scored first, and the base only scores items that
are still possible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import check_callable, is_iterable, number
from quasir.core.formatting import short_repr
from quasir.core.items import as_items, take
from quasir.core.scores import log_prob_of
from quasir.core.types import Array, Items, optional_attribute
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
        return Product(base, (self,))

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


LINE = 100  # longest repr


@dataclass(frozen=True)
class Scores:
    """Scores of a batch of items under a product.

    `spared` counts the items that the base did not have to score; `log_base` is NaN for those,
    unless it was known.

    Examples
    --------
    >>> import quasir as qr
    >>> target = qr.Table({"a": 0.5, "b": 0.5}) * qr.features.contains("a")
    >>> target.scores(["a", "b"]).spared
    1
    """

    log_p: Array
    log_base: Array
    features: dict[str, NDArray[Any]]
    spared: int


class Product:
    """P(x) = a(x) b(x): a base, factors, and features that are only watched.

    Parameters
    ----------
    base : object with ``log_prob(items)``
        a(x), normalised.
    factors : sequence of Factor
        Factors of b(x).
    watched : sequence of Feature
        Recorded with the draws, without changing P.

    Examples
    --------
    >>> import quasir as qr
    >>> target = qr.Table({"a": 0.5, "b": 0.5}) * qr.features.contains("a")
    >>> isinstance(target, Product), target.log_score(["a", "b"]).round(3).tolist()
    (True, [-0.693, -inf])
    """

    def __init__(
        self, base: Any, factors: Sequence[Factor] = (), watched: Sequence[Feature] = ()
    ) -> None:
        if isinstance(base, type) or not callable(getattr(base, "log_prob", None)):
            raise InputError(f"{short_repr(base)} cannot be a base: it has no log_prob(items).")
        self.base = base
        self.factors: tuple[Factor, ...] = _several("factors", factors)
        self.watched: tuple[Feature, ...] = _several("watched", watched)
        for factor in self.factors:
            if not callable(getattr(factor, "log_factor", None)):
                raise InputError(f"{short_repr(factor)} is not a factor: use qr.tilt(feature, c).")
        by_name: dict[str, Feature] = {}
        for feature in (*(factor.feature for factor in self.factors), *self.watched):
            check_feature(feature)
            if not by_name.setdefault(feature.name, feature).same_as(feature):
                raise InputError(f"two different features are called {feature.name!r}: rename one.")
        # Expensive features come last, when most items may already be impossible.
        self.features = sorted(by_name.values(), key=lambda feature: feature.expensive)

    @property
    def density(self) -> bool | None:
        """Whether the base is a density; None if it does not say."""
        return optional_attribute(self.base, "density")  # type: ignore[no-any-return]

    def watch(self, *features: Feature) -> Product:
        """Return the same target, with draws that record these features as well."""
        return Product(self.base, self.factors, (*self.watched, *features))

    def __mul__(self, factor: Any) -> Product:
        if isinstance(factor, Feature):
            factor = Pointwise(factor.bound(self.base))
        if not hasattr(factor, "log_factor"):
            return NotImplemented
        return Product(self.base, (*self.factors, factor), self.watched)

    def log_score(self, items: Items) -> Array:
        """Return log P(x) = log a(x) + log b(x)."""
        return self.scores(items).log_p

    def scores(
        self,
        items: Items,
        log_base: Array | Callable[[NDArray[np.intp]], Array] | None = None,
        batch_size: int | None = None,
    ) -> Scores:
        """Score the factors, then the base on the items that are still possible.

        Parameters
        ----------
        items : column of items
        log_base : array or callable, optional
            log a(x) if it is known, as it is for items drawn from the base. A callable gets the
            indices of the items that are still possible, and returns the array, complete there.
        batch_size : int, optional
            How many items the base scores at once.
        """
        items = as_items(items)
        n = len(items)
        log_b, columns = np.zeros(n), {}
        for feature in self.features:
            possible = log_b > -np.inf
            column = feature.column_where(possible | (not feature.expensive), items)
            columns[feature.name] = column
            for factor in self.factors:
                if factor.feature.name == feature.name:
                    log_b[possible] += factor.log_factor(column[possible])
        left = np.flatnonzero(log_b > -np.inf)
        if callable(log_base):
            log_base = log_base(left)
        if log_base is not None:
            log_p = np.where(log_b > -np.inf, log_base + log_b, -np.inf)
            return Scores(log_p, log_base, columns, n)
        scored = np.full(n, np.nan)
        step = max(int(batch_size or len(left)), 1)
        for start in range(0, len(left), step):
            at = left[start : start + step]
            scored[at] = log_prob_of(self.base, take(items, at), "log a")
        log_p = np.full(n, -np.inf)
        log_p[left] = scored[left] + log_b[left]
        return Scores(log_p, scored, columns, n - len(left))

    def __repr__(self) -> str:
        text = " * ".join([short_repr(self.base, 60), *(str(factor) for factor in self.factors)])
        return text if len(text) <= LINE else text[: LINE - 3] + "..."


class Conditional:
    """A target that takes a context, such as the sentence to paraphrase.

    Draws, curves and samplers are per context: `given` returns an ordinary target.

    Examples
    --------
    >>> import quasir as qr
    >>> base = qr.Table({"rain": 0.5, "sun": 0.5})
    >>> target = qr.targets.Conditional(lambda word: base * qr.features.contains(word))
    >>> target.given("sun").log_score(["rain", "sun"]).round(3)
    array([  -inf, -0.693])
    """

    def __init__(self, make: Callable[[Any], Any]) -> None:
        check_callable("the argument of Conditional", make, "a function from a context to a target")
        self.make = make

    def given(self, context: Any) -> Any:
        """Return the target for this context."""
        return self.make(context)

    def log_score(self, items: Items) -> Array:
        """Refuse: there is no score without a context."""
        raise InputError("this target needs a context: use target.given(context).")


def _several(name: str, given: Any) -> tuple[Any, ...]:
    if isinstance(given, (str, Feature, Mapping)) or not is_iterable(given):
        raise InputError(f"{name} are {short_repr(given)}, but must be a list.")
    return tuple(given)
