"""A feature: a named function of an item, boolean or real."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import LARGEST, check_bool, check_callable, number, reals
from quasir.core.formatting import short_repr
from quasir.core.items import Coded, as_items, check_items, take
from quasir.core.types import Items
from quasir.errors import FeatureError, InputError, QuasirError

Spans = Callable[[str], list[tuple[int, int]]]


@dataclass(frozen=True)
class WordGroup:
    """Words of which one is enough: whether as whole words only, and whether case matters."""

    words: tuple[str, ...]
    whole: bool = True
    case: bool = False


class Feature:
    """phi(x): a named function of an item.

    Called with a column of items, it returns a column of booleans or float64s. A base times a
    boolean feature is the target that keeps only the items that fire it. Boolean features combine:
    ``f & g`` fires where both do, ``f | g`` where one does, ``~f`` where f does not.

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
    boolean : bool
        Declares that it is true or false for every item. A declaration is held to: any other
        value is an error. It is what a ceiling of the ratios, and so a guarantee, can rest on.
    low, high : float, optional
        Declare that no item has a smaller, or a larger, value. One of them may be left out.

    Examples
    --------
    >>> length = Feature("length", lambda x: len(str(x)))
    >>> length(["one", "three"])
    array([3., 5.])
    >>> a, b = (Feature(letter, lambda x, letter=letter: letter in x) for letter in "ab")
    >>> both = a & ~b
    >>> both, both(["a", "ab"])
    (Feature('a and not b'), array([ True, False]))
    """

    word_groups: tuple[WordGroup, ...] = ()
    """Words that the feature looks for, which a guide can boost (`quasir.guides.boost`)."""

    def __init__(
        self,
        name: str,
        function: Callable[[Any], Any],
        batched: bool = False,
        expensive: bool = False,
        spans: Spans | None = None,
        *,
        boolean: bool = False,
        low: float | None = None,
        high: float | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise InputError(f"a feature's name is {short_repr(name)}, but must be a string.")
        check_callable(f"the function of feature {short_repr(name)}", function, "a function")
        for what, flag in (("batched", batched), ("expensive", expensive), ("boolean", boolean)):
            check_bool(what, flag)
        if spans is not None:
            check_callable("spans", spans, "a function from a text to pairs (start, end)")
        self.name, self.function, self.batched = name, function, batched
        self.expensive, self.spans, self.boolean = expensive, spans, bool(boolean)
        self.bounds = _bounds(name, boolean, low, high)
        self._made_of: tuple[Any, ...] = ()

    def __call__(self, items: Items) -> NDArray[Any]:
        """Return the feature's value for each item, checked: booleans, or finite float64s."""
        check_items(items)
        if isinstance(items, Coded) and len(items.support) < len(items):
            column: NDArray[Any] = self(list(items.support))[items.codes]
            return column
        if self.batched:
            return self._checked(self._ask(items), items)
        return self._checked([self._ask(item) for item in items], items)

    def column_where(self, asked: NDArray[np.bool_], items: Items) -> NDArray[Any]:
        """Return its column, NaN where it is not asked."""
        if asked.all():
            return self(items)
        column = np.full(len(items), np.nan)
        column[asked] = self(take(items, np.flatnonzero(asked)))
        return column

    def _ask(self, argument: Any) -> Any:
        try:
            return self.function(argument)
        except QuasirError:  # it says what is wrong
            raise
        except Exception as error:
            where = self._where_it_fails(argument) if self.batched else short_repr(argument)
            raise FeatureError(
                f"feature {self.name!r} failed with {type(error).__name__}: {error}, on item "
                f"{where}. Make its function take every item that the proposal can give."
            ) from error

    def _where_it_fails(self, items: Items) -> str:
        """Return the first item of a batch that the function fails on alone."""
        for i in range(len(items)):
            try:
                self.function(items[i : i + 1])
            except Exception:
                return short_repr(items[i])
        return f"none alone, but a batch of {len(items)} items"

    def _checked(self, values: Any, items: Items) -> NDArray[Any]:
        """Refuse what is no number, and a value that the feature declared to be impossible."""
        column = reals(f"the values of feature {self.name!r}", values, FeatureError)
        if len(items) == 0 and column.size == 0:
            return column.reshape(0)
        if column.shape != (len(items),):
            other = ", or be made without batched=True if it takes one item" if self.batched else ""
            raise FeatureError(
                f"feature {self.name!r} gave shape {column.shape} for {len(items)} items; it must "
                f"give one value for each{other}."
            )
        if column.dtype == bool:
            return column
        low, high = self.bounds
        declared = f"from {low:g} to {high:g}" if low > -math.inf or high < math.inf else ""
        wrong = ~((np.abs(column) <= LARGEST) & (column >= low) & (column <= high))
        if self.boolean:
            declared, wrong = "boolean", (column != 0) & (column != 1)
        if wrong.any():
            i = int(np.argmax(wrong))
            said = f"is declared {declared}, but is" if declared else "is"
            raise FeatureError(
                f"feature {self.name!r} {said} {column[i]:g} for {int(wrong.sum())} of "
                f"{len(items)} items, the first being {short_repr(items[i])}. It must be finite, "
                f"of at most {LARGEST:g} in size, and as declared: guarantees rest on that."
            )
        return column.astype(bool) if self.boolean else column

    def __invert__(self) -> Feature:
        return _combined("not", self)

    def __and__(self, other: Any) -> Feature:
        return _combined("and", self, other) if isinstance(other, Feature) else NotImplemented

    def __or__(self, other: Any) -> Feature:
        return _combined("or", self, other) if isinstance(other, Feature) else NotImplemented

    def __bool__(self) -> bool:
        raise InputError("use f & g, f | g and ~f to combine features, not `and`, `or` and `not`.")

    def renamed(self, name: str) -> Feature:
        """Return the same feature under another name."""
        made = copy(self)
        made.name = name
        return made

    def same_as(self, other: Feature) -> bool:
        """Return whether this is the other feature, or made in the same way of the same ones."""
        if self is other:
            return True
        ours, theirs = self._made_of, other._made_of
        if not ours or not theirs or ours[0] != theirs[0]:
            return False
        return all(a.same_as(b) for a, b in zip(ours[1:], theirs[1:], strict=True))

    def as_boolean(self, column: NDArray[Any]) -> NDArray[np.bool_]:
        """Return its column as booleans; raise `FeatureError` for numbers other than 0 and 1."""
        if column.dtype != bool:
            other = (column != 0) & (column != 1)
            if other.any():
                raise FeatureError(
                    f"feature {self.name!r} gave {column[int(np.argmax(other))]:g}, where a "
                    "boolean is needed: a pointwise constraint is true or false. For a number, use "
                    "qr.tilt(feature, coefficient), or ask for its mean with qr.constrain; in "
                    "a recipe, declare its low and high, and want is its mean."
                )
        return column.astype(bool)

    def bound(self, base: Any) -> Feature:
        """Return this feature for the items of a base; a language needs its tokens."""
        return self

    def __rmul__(self, base: Any) -> Any:
        from quasir.targets.product import Product

        return Product(base) * self

    def __repr__(self) -> str:
        return f"Feature({short_repr(self.name)})"


def _bounds(name: str, boolean: bool, low: Any, high: Any) -> tuple[float, float]:
    """Return the least and the greatest value that are declared; infinite where none is."""
    least = -math.inf if low is None else number("low", low)
    most = math.inf if high is None else number("high", high)
    stated = boolean and not (low is None and high is None)
    if stated or not least <= most or least == math.inf or most == -math.inf:
        raise InputError(
            f"feature {short_repr(name)} is declared {'boolean, and ' * bool(boolean)}between "
            f"{short_repr(low)} and {short_repr(high)}, which cannot be."
        )
    return (0.0, 1.0) if boolean else (least, most)


def _combined(how: Literal["and", "or", "not"], *parts: Feature) -> Feature:
    """Return the feature that fires where both parts do, where one does, or where none does."""
    cheap_first = sorted(parts, key=lambda feature: feature.expensive)
    rule, names = _Rule(how, cheap_first), [_name(part, how) for part in parts]
    made = Feature(
        f"not {names[0]}" if how == "not" else f" {how} ".join(names),
        rule,
        batched=True,
        expensive=cheap_first[-1].expensive,
        spans=rule.spans if how != "not" and any(part.spans for part in parts) else None,
        boolean=True,
    )
    made._made_of = (how, *parts)
    return made


@dataclass(frozen=True)
class _Rule:
    """How features combine; the last of them, if it is expensive, is asked where it decides."""

    how: Literal["and", "or", "not"]
    parts: list[Feature]

    def __call__(self, items: Items) -> NDArray[np.bool_]:
        first, last = self.parts[0], self.parts[-1]
        column = first.as_boolean(first(items)).copy()
        if self.how == "not":
            return ~column
        if not last.expensive:
            other = last.as_boolean(last(items))
            return column | other if self.how == "or" else column & other
        left = np.flatnonzero(column != (self.how == "or"))
        if len(left):
            column[left] = last.as_boolean(last(take(as_items(items), left)))
        return column

    def spans(self, text: str) -> list[tuple[int, int]]:
        places = [place for part in self.parts if part.spans for place in part.spans(text)]
        return _merged(sorted(set(places)))


def _name(feature: Feature, how: str) -> str:
    """Return the name of a part, in brackets where it could be read in two ways."""
    inner = feature._made_of[0] if feature._made_of else how
    return feature.name if inner in (how, "not") else f"({feature.name})"


def _merged(places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join places that overlap; they are sorted."""
    joined: list[tuple[int, int]] = []
    for start, end in places:
        if joined and start < joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def check_feature(feature: Any) -> None:
    """Refuse what is no feature."""
    if not isinstance(feature, Feature):
        raise InputError(
            f"{short_repr(feature)} is not a feature: make one with qr.Feature(name, function)."
        )
