"""A feature to copy: a function of an item, for Python and for recipes.

In a recipe: ``features: {doubled: {python: "feature.py:has_double", boolean: true}}``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import quasir as qr


def has_double(item: Any) -> bool:
    """Return whether two equal letters stand side by side in the item's text."""
    text = qr.features.text_of(item)
    return any(a == b for a, b in pairwise(text))


def double_letters(name: str = "double letters") -> qr.Feature:
    """Return the feature; `spans` are the places that the page colours."""

    def spans(text: str) -> list[tuple[int, int]]:
        return [(i, i + 2) for i in range(len(text) - 1) if text[i] == text[i + 1]]

    return qr.Feature(name, has_double, boolean=True, spans=spans)
