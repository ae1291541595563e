"""Paths of models in folders: beside the recipe's file, or inside the run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from quasir.recipes.schema import Recipe, Source

__all__ = ["located", "portable"]


def located(recipe: Recipe, folder: Path) -> Recipe:
    """Return the recipe with absolute paths for models that are folders beside it."""

    def locate(name: str) -> str:
        beside = folder / name
        return str(beside.resolve()) if os.path.isdir(beside) else name

    return _renamed(recipe, locate)


def portable(recipe: Recipe, folder: Path) -> Recipe:
    """Return the recipe as a run keeps it: with relative paths for models inside the run.

    A run with its own proposal can then be moved.
    """
    inside = folder.resolve()

    def shorten(name: str) -> str:
        path = Path(name)
        return str(path.relative_to(inside)) if path.is_relative_to(inside) else name

    return _renamed(recipe, shorten)


def _renamed(recipe: Recipe, rename: Callable[[str], str]) -> Recipe:
    def within(source: Source) -> Source:
        update: dict[str, object] = {
            field: rename(name)
            for field in ("model", "adapter")
            if (name := getattr(source, field)) is not None
        }
        if source.round_trip is not None:
            trip = source.round_trip
            names = {"there": rename(trip.there), "back": rename(trip.back)}
            update["round_trip"] = trip.model_copy(update=names)
        if source.mixture is not None:
            update["mixture"] = [within(part) for part in source.mixture]
        return source.model_copy(update=update)

    named = {}
    for feature, spec in recipe.features.items():
        near = spec.similarity
        if near is not None and near.model is not None:
            near = near.model_copy(update={"model": rename(near.model)})
            spec = spec.model_copy(update={"similarity": near})
        named[feature] = spec
    sources = {"base": within(recipe.base), "proposal": within(recipe.proposal)}
    return recipe.model_copy(update=sources | {"features": named})
