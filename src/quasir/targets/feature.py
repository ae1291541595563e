"""A feature: a named function of an item, boolean or real."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.items import Coded
from quasir.core.scores import show
from quasir.core.types import Items
from quasir.errors import FeatureError, InputError

__all__ = ["Feature"]

Spans = Callable[[str], list[tuple[int, int]]]


class Feature:
    """phi(x): a named function of an item.

    Called with a column of items, it returns a column of booleans or float64s. A base times a
    boolean feature is the target that keeps only the items that fire it; `~feature` is the
    opposite feature.

    Parameters
    ----------
    name : str
        Its name in columns, moments and errors.
    function : callable
        From an item to a boolean or a number; with ``batched=True`` from a sequence of items to
        a sequence of booleans or numbers.
    batched : bool
        Whether the function takes many items at once.
    expensive : bool
        Whether to skip items that cheaper features made impossible; its column is NaN there.
    spans : callable, optional
        From a text to the places (start, end) that make the feature fire, to colour them.

    Examples
    --------
    >>> length = Feature("length", lambda x: len(str(x)))
    >>> length(["one", "three"])
    array([3., 5.])
    """

    def __init__(
        self,
        name: str,
        function: Callable[[Any], Any],
        batched: bool = False,
        expensive: bool = False,
        spans: Spans | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise InputError(f"a feature's name is {name!r}, but must be a string that names it.")
        if not callable(function):
            raise InputError(f"feature {name!r} has no function: {function!r} cannot be called.")
        self.name, self.function, self.batched = name, function, batched
        self.expensive, self.spans = expensive, spans

    def __call__(self, items: Items) -> NDArray[Any]:
        """Return the feature's value for each item, checked: booleans, or finite float64s."""
        if isinstance(items, Coded) and len(items.support) < len(items):
            column: NDArray[Any] = self(list(items.support))[items.codes]
            return column
        if self.batched:
            return self._checked(self._ask(items), items)
        values = []
        for item in items:
            values.append(self._ask(item))
        return self._checked(values, items)

    def _ask(self, argument: Any) -> Any:
        try:
            return self.function(argument)
        except Exception as error:
            what = show(argument[0]) if self.batched and len(argument) else show(argument)
            where = f"a batch of {len(argument)} items beginning with" if self.batched else "item"
            raise FeatureError(
                f"feature {self.name!r} failed with {type(error).__name__}: {error}, on {where} "
                f"{what}. Make its function take every item that the proposal can give."
            ) from error

    def _checked(self, values: Any, items: Items) -> NDArray[Any]:
        try:
            column = np.asarray(values)
            if column.dtype != bool:
                column = column.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise FeatureError(
                f"feature {self.name!r} gave a value that is not a number ({error}); it must give "
                "a boolean or a number for each item."
            ) from error
        if len(items) == 0 and column.size == 0:
            return column.reshape(0)
        if column.shape != (len(items),):
            raise FeatureError(
                f"feature {self.name!r} gave shape {column.shape} for {len(items)} items; it must "
                "give one value for each"
                + (
                    ", or be made without batched=True if it takes one item."
                    if self.batched
                    else "."
                )
            )
        wrong = ~np.isfinite(column)
        if wrong.any():
            i = int(np.argmax(wrong))
            raise FeatureError(
                f"feature {self.name!r} is {column[i]} for {int(wrong.sum())} of {len(items)} "
                f"items, the first being {show(items[i])}; it must be finite."
            )
        return column

    def __invert__(self) -> Feature:
        """Return the feature that fires where this one does not."""

        def opposite(items: Items) -> NDArray[np.bool_]:
            return ~self.as_boolean(self(items))

        return Feature(f"not {self.name}", opposite, batched=True, expensive=self.expensive)

    def as_boolean(self, column: NDArray[Any]) -> NDArray[np.bool_]:
        """Return its column as booleans; raise `FeatureError` for numbers other than 0 and 1."""
        if column.dtype != bool:
            other = (column != 0) & (column != 1)
            if other.any():
                raise FeatureError(
                    f"feature {self.name!r} gave {column[int(np.argmax(other))]:g}, where a "
                    "boolean is needed: a pointwise constraint is true or false. For a number, use "
                    "qr.tilt(feature, coefficient), or ask for its mean with qr.constrain."
                )
        return column.astype(bool)

    def __rmul__(self, base: Any) -> Any:
        """Return base * feature: the base, restricted to items that fire the feature."""
        from quasir.targets.factors import Pointwise
        from quasir.targets.product import multiply

        return multiply(base, Pointwise(self))

    def __repr__(self) -> str:
        return f"Feature({self.name!r})"
