"""Targets P(x) = a(x) b(x): a base times factors, scored lazily.

``base * feature`` keeps what fires a boolean feature, ``base * tilt(feature, c)`` multiplies by
exp(c phi(x)), and products go on: ``base * feature * tilt(...)``. The cheap factors are scored
first and the base only on items that are still possible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from quasir.errors import InputError
from quasir.features.feature import Feature
from quasir.items import as_items, take
from quasir.levels import number
from quasir.scoring import check_log_scores, name_of
from quasir.typing import Array, Items

__all__ = ["Conditional", "Factor", "Pointwise", "Product", "Scores", "Tilt", "reward", "tilt"]


class Factor(Protocol):
    """A factor of b(x), a function of one feature.

    It may also have ``log_most(boolean)``, the log of the most that it can be, given whether the
    feature is true or false: the ratios then have a ceiling (`quasir.ceiling`).
    """

    @property
    def feature(self) -> Feature:
        """The feature that it is a function of."""
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
        """Return the log of the most that the factor can be."""
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
        """Return the log of the most that the factor can be: known of what is true or false."""
        return max(self.coefficient, 0.0) if boolean else np.inf

    def __rmul__(self, base: Any) -> Product:
        """Return base * tilt."""
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
    """Return the factor exp(r(x)/temperature), as KL-regularised reinforcement learning has it.

    A plain callable becomes a feature named ``reward``.
    """
    value = number("temperature", temperature)
    if not value > 0:
        raise InputError(f"temperature is {temperature!r}, but must be above 0.")
    feature = function if isinstance(function, Feature) else Feature("reward", function)
    return Tilt(feature, 1.0 / value)


@dataclass(frozen=True)
class Scores:
    """What a product knows of a batch of items.

    `log_base` is NaN where the base was spared; `spared` counts the items that it did not have
    to score.
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
        What b(x) is the product of.
    watched : sequence of Feature
        Recorded with the draws, without changing P.
    """

    def __init__(
        self, base: Any, factors: Sequence[Factor] = (), watched: Sequence[Feature] = ()
    ) -> None:
        if not callable(getattr(base, "log_prob", None)):
            raise InputError(
                f"a {type(base).__name__} cannot be a base: it has no log_prob(items), the "
                "normalised log a(x), as a Table or a language model has."
            )
        self.base, self.factors, self.watched = base, tuple(factors), tuple(watched)
        by_name: dict[str, Feature] = {}
        for feature in (*(factor.feature for factor in self.factors), *self.watched):
            if by_name.setdefault(feature.name, feature) is not feature:
                raise InputError(f"two different features are called {feature.name!r}: rename one.")
        # The dear ones come last, when most items may be impossible already.
        self.features = sorted(by_name.values(), key=lambda feature: feature.expensive)

    def watch(self, *features: Feature) -> Product:
        """Return the same target, whose draws record these features as well."""
        return Product(self.base, self.factors, (*self.watched, *features))

    def __mul__(self, factor: Any) -> Product:
        if isinstance(factor, Feature):
            factor = Pointwise(factor)
        if not hasattr(factor, "log_factor"):
            return NotImplemented
        return Product(self.base, (*self.factors, factor), self.watched)

    def log_score(self, items: Items) -> Array:
        """Return log P(x) = log a(x) + log b(x)."""
        return self.scores(items).log_p

    def scores(
        self, items: Items, log_base: Array | None = None, batch_size: int | None = None
    ) -> Scores:
        """Score the factors, then the base on what is left.

        Parameters
        ----------
        items : column of items
        log_base : array, optional
            log a(x) where it is known, as it is when the items were drawn from the base.
        batch_size : int, optional
            How many items the base scores at once.
        """
        items = as_items(items)
        n = len(items)
        log_b, columns = np.zeros(n), {}
        for feature in self.features:
            possible = log_b > -np.inf
            if feature.expensive and not possible.all():
                column = np.full(n, np.nan)
                column[possible] = feature(take(items, np.flatnonzero(possible)))
            else:
                column = feature(items)
            columns[feature.name] = column
            for factor in self.factors:
                if factor.feature is feature:
                    log_b[possible] += factor.log_factor(column[possible])
        left = np.flatnonzero(log_b > -np.inf)
        if log_base is not None:
            return Scores(
                np.where(log_b > -np.inf, log_base + log_b, -np.inf), log_base, columns, n
            )
        scored = np.full(n, np.nan)
        step = max(batch_size or len(left), 1)
        for start in range(0, len(left), step):
            at = left[start : start + step]
            part = take(items, at)
            scored[at] = check_log_scores(
                self.base.log_prob(part), part, name_of(self.base), "log a"
            )
        log_p = np.full(n, -np.inf)
        log_p[left] = scored[left] + log_b[left]
        return Scores(log_p, scored, columns, n - len(left))

    def __repr__(self) -> str:
        return " * ".join([repr(self.base), *(str(factor) for factor in self.factors)])


def multiply(base: Any, factor: Factor) -> Product:
    """Return base * factor, the base being a product already or not."""
    if isinstance(base, Product):
        return base * factor
    return Product(base, (factor,))


class Conditional:
    """A target that takes a context, such as the sentence to paraphrase.

    Draws, curves and samplers are per context: `given` returns an ordinary target.

    Examples
    --------
    >>> import quasir as qr
    >>> base = qr.Table({"rain": 0.5, "sun": 0.5})
    >>> target = qr.Conditional(lambda word: base * qr.features.contains(word))
    >>> target.given("sun").log_score(["rain", "sun"]).round(3)
    array([  -inf, -0.693])
    """

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self.make = make

    def given(self, context: Any) -> Any:
        """Return the target for this context."""
        return self.make(context)

    def log_score(self, items: Items) -> Array:
        """Refuse: there is no score without a context."""
        raise InputError("this target needs a context: use target.given(context).")
