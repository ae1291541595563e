"""Checks of fields that depend on each other."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from quasir.core.formatting import escaped, shown
from quasir.errors import RecipeError
from quasir.recipes.schema import Recipe, Source
from quasir.recipes.yaml_scalars import Place
from quasir.recipes.yaml_tree import Node

__all__ = ["check"]


def check(recipe: Recipe, tree: Node, file: str) -> None:
    """Check a recipe whose fields are right one by one; a message names the line."""

    def error(message: str, *steps: Any) -> RecipeError:
        return Place(file, tree.find(list(steps))[0]).error(message)

    for field in ("want", "lambda", "fitted"):
        for name in recipe.coefficients if field == "lambda" else getattr(recipe, field):
            if name not in recipe.features:
                close = difflib.get_close_matches(name, recipe.features, 1, cutoff=0.5)
                hint = f"did you mean {escaped(close[0])}?" if close else "name it under features."
                raise error(f"there is no feature {shown(name)}: {hint}", field, name)
    for message, steps in (*_wishes(recipe), *_fitted(recipe), *_sources(recipe)):
        raise error(message, *steps)


Mistakes = Iterator[tuple[str, list[Any]]]


def _wishes(recipe: Recipe) -> Mistakes:
    for name, wish in recipe.want.items():
        if _known_boolean(recipe, name) and not 0 <= wish <= 1:
            yield (
                f"{escaped(name)} is true or false, so its mean is between 0 and 1, but {wish:g} "
                "is wanted",
                ["want", name],
            )
    for name in recipe.coefficients:
        if name in recipe.want:
            yield (
                f"{escaped(name)} stands under want and under lambda: a tilt is given under "
                "lambda, a wish under want; what was fitted for a wish stands under fitted",
                ["lambda", name],
            )


def _fitted(recipe: Recipe) -> Mistakes:
    for name in recipe.fitted:
        if name not in recipe.want:
            yield (
                f"{escaped(name)} has a lambda under fitted, but no wish under want: a tilt "
                "without a wish stands under lambda",
                ["fitted", name],
            )
        elif recipe.want[name] in (0.0, 1.0) and _known_boolean(recipe, name):
            yield (
                f"{escaped(name)} holds for every item ({recipe.want[name]:g} is wanted), so it "
                "has no lambda: leave it out of fitted",
                ["fitted", name],
            )
    if recipe.fitted and recipe.unfitted:
        yield (
            f"fitted has no lambda of {escaped(', '.join(recipe.unfitted))}: each lambda depends "
            "on the others, so give all of them, or leave fitted out to have them fitted",
            ["fitted"],
        )


def _known_boolean(recipe: Recipe, name: str) -> bool:
    spec = recipe.features[name]
    return bool(spec.boolean) or (spec.may_be_boolean and spec.python is None)


def _sources(recipe: Recipe) -> Mistakes:
    base = recipe.base
    if base.mixture is not None or base.round_trip is not None or base.source is not None:
        yield "a base is a causal model, a table or a Poisson", ["base"]
    if not base.given(("model", "table", "poisson")):
        yield "base names no model, table or Poisson", ["base"]
    for field in ("base", "proposal"):
        source: Source = getattr(recipe, field)
        if "weight" in source.model_fields_set:
            yield (
                f"a weight means something only in a mixture, and {field} is none: leave it out",
                [field, "weight"],
            )
    yield from _without_model(recipe, recipe.proposal, ["proposal"])


def _without_model(recipe: Recipe, source: Source, steps: list[Any]) -> Mistakes:
    """Find settings of the base's model, where the base has no model."""
    for i, part in enumerate(source.mixture or []):
        yield from _without_model(recipe, part, [*steps, "mixture", i])
    if recipe.base.model is None and source.model is None and source.of_model:
        name = source.of_model[0]
        yield (
            f"{name} is a setting of a model, but the proposal names no model, and the base has "
            "none: give the proposal a model, a table or a poisson",
            [*steps, name],
        )
