"""The terms of the built-in models that a recipe needs, as their cards state them."""

from __future__ import annotations

import re
from pathlib import Path

from quasir.recipes.schema import Recipe, Source

__all__ = ["terms_of"]

MODELS = Path(__file__).parents[1] / "text" / "models"
LINE = re.compile(r"^(?:terms|license): *(.+)$", re.MULTILINE)
UNSAID = "other"
"""What a card has as its licence where it states terms in words."""


def terms_of(recipe: Recipe) -> list[str]:
    """Return the terms of the weights, each once; an unknown or external model has none.

    Examples
    --------
    >>> from quasir import recipes
    >>> terms_of(recipes.read(recipes.find("contains")))
    ['cc-by-sa-4.0']
    """
    names = [*_names(recipe.base), *_names(recipe.proposal)]
    names += [spec.similarity.model for spec in recipe.features.values() if spec.similarity]
    found: list[str] = []
    for name in dict.fromkeys(names):
        if name is not None and name.startswith("quasir/"):
            card = MODELS / name.removeprefix("quasir/") / "README.md"
            text = card.read_text(encoding="utf-8") if card.is_file() else ""
            found += [terms for terms in LINE.findall(text)[:2] if terms != UNSAID][-1:]
    return list(dict.fromkeys(found))


def _names(source: Source) -> list[str | None]:
    """Return the models and adapters of a source."""
    names = [source.model, source.adapter]
    for part in source.mixture or []:
        names += _names(part)
    return names
