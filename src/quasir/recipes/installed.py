"""Sentence models of installed packages, which a recipe may take instead of a built-in one."""

from __future__ import annotations

from quasir.features.sentence_models import is_installed
from quasir.recipes.feature_schema import FeatureSpec
from quasir.recipes.schema import Recipe

__all__ = ["with_installed"]


def with_installed(recipe: Recipe) -> Recipe:
    """Return a recipe whose similarities name one model: the package under `instead`, if there."""

    def chosen(spec: FeatureSpec) -> FeatureSpec:
        near = spec.similarity
        if near is None or near.instead is None:
            return spec
        (package, above), *_ = near.instead.items()
        kept = {"model": package, "above": above} if is_installed(package) else {}
        near = near.model_copy(update={**kept, "instead": None})
        return spec.model_copy(update={"similarity": near})

    named = {name: chosen(spec) for name, spec in recipe.features.items()}
    return recipe.model_copy(update={"features": named})
