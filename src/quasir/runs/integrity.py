"""Whether a run is what its recipe says: what the draws depend on has a hash in the manifest."""

from __future__ import annotations

import hashlib
from pathlib import Path

from quasir import recipes
from quasir.errors import StoreError
from quasir.recipes.schema import Recipe
from quasir.store import Store

__all__ = ["FREE", "read_checked", "recipe_hash"]

FREE = {"about", "draws", "choose", "samples"}
"""Fields of a recipe that no draw depends on: they may change on resume."""


def recipe_hash(recipe: Recipe) -> str:
    """Return the hash of all that the draws depend on, as the recipe's file has it."""
    defaults = {name: Recipe.model_fields[name].get_default() for name in FREE}
    text = recipes.dump(recipe.model_copy(update=defaults))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def read_checked(folder: Path, store: Store) -> Recipe:
    """Return the recipe of a run, as it is kept in its folder.

    Raises
    ------
    StoreError
        If it is not the recipe that the draws were made with.
    """
    path = folder / "recipe.yaml"
    recipe = recipes.read_run(folder)
    if recipe.seed != store.seed:
        raise StoreError(
            f"{path} has seed {recipe.seed}, but the draws beside it were made with seed "
            f"{store.seed}: the file was changed by hand. Put the seed back, or begin another run "
            "with --out."
        )
    if store.manifest.format != 1 and recipe_hash(recipe) != store.manifest.recipe:
        raise StoreError(
            f"{path} is not the recipe that the draws beside it were made with: it was changed by "
            f"hand, in something else than {', '.join(sorted(FREE))}, which may change. The draws "
            "are of another target or proposal. Put the recipe back, or begin another run of this "
            "one with --out."
        )
    return recipe
