"""Boolean features made of others: f & g, f | g, ~f."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from quasir.core.items import as_items, take
from quasir.core.types import Items
from quasir.targets.feature import Feature

__all__ = ["combined", "opposite"]


def opposite(feature: Feature) -> Feature:
    """Return the feature that fires where the given one does not.

    Examples
    --------
    >>> import quasir as qr
    >>> opposite(qr.features.science & qr.features.female).name
    'not (science and female)'
    """

    def function(items: Items) -> NDArray[np.bool_]:
        return ~feature.as_boolean(feature(items))

    name = f"not {_name(feature, 'not')}"
    made = Feature(name, function, batched=True, expensive=feature.expensive, boolean=True)
    made._made_of = ("not", feature)
    return made


def combined(how: Literal["and", "or"], first: Feature, second: Feature) -> Feature:
    """Return the feature that fires where both do, or where at least one does.

    It is expensive if one of the two is; that one is then asked only where the other does not
    decide. Its spans are those of both.

    Examples
    --------
    >>> import quasir as qr
    >>> combined("or", qr.features.sports, qr.features.science & qr.features.female).name
    'sports or (science and female)'
    """
    decides = how == "or"
    cheap, dear = sorted((first, second), key=lambda feature: feature.expensive)

    def function(items: Items) -> NDArray[np.bool_]:
        column = cheap.as_boolean(cheap(items)).copy()
        if not dear.expensive:
            other = dear.as_boolean(dear(items))
            return column | other if decides else column & other
        left = np.flatnonzero(column != decides)
        if len(left):
            column[left] = dear.as_boolean(dear(take(as_items(items), left)))
        return column

    def spans(text: str) -> list[tuple[int, int]]:
        places = [place for f in (first, second) if f.spans for place in f.spans(text)]
        return _merged(sorted(set(places)))

    made = Feature(
        f"{_name(first, how)} {how} {_name(second, how)}",
        function,
        batched=True,
        expensive=dear.expensive,
        spans=spans if first.spans or second.spans else None,
        boolean=True,
    )
    made._made_of = (how, first, second)
    return made


def _name(feature: Feature, how: str) -> str:
    """Return the name of a part, in brackets where it could be read in two ways."""
    inner = feature._made_of[0] if feature._made_of else how
    return feature.name if inner in (how, "not") else f"({feature.name})"


def _merged(places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join places that overlap; they are sorted.

    Examples
    --------
    >>> _merged([(0, 3), (2, 5), (7, 8)])
    [(0, 5), (7, 8)]
    """
    joined: list[tuple[int, int]] = []
    for start, end in places:
        if joined and start < joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined
