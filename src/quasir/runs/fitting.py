"""The draws that lambda is fitted on: they belong to the run, so a stopped fit goes on."""

from __future__ import annotations

from pathlib import Path

from quasir.core.progress import Progress
from quasir.core.streams import Purpose, derived_seed
from quasir.draws.draws import Draws
from quasir.errors import StoreError
from quasir.recipes.building import Built
from quasir.recipes.schema import Recipe
from quasir.runs.draw_shards import draw_into
from quasir.runs.integrity import recipe_hash
from quasir.store import MANIFEST, Store
from quasir.targets.product import Product

__all__ = ["FIT", "fitting_draws"]

FIT = "fit"
"""The folder of these draws, in the run's."""
TEXT_BLOCKS, BLOCKS = 1, 64
"""Blocks in a shard: what a stopped fit loses at most, some seconds of work."""


def fitting_draws(recipe: Recipe, built: Built, folder: Path, progress: Progress = False) -> Draws:
    """Draw from the base what lambda is fitted on, or go on where an earlier call was stopped."""
    path, own = folder / FIT, recipe_hash(recipe)
    if (path / MANIFEST).is_file():
        store = Store.open(path)
        if store.manifest.recipe != own:
            raise StoreError(
                f"{path} holds draws of another recipe, whose fit was stopped: give another "
                f"folder with --out, or remove {path} to fit anew."
            )
    else:
        seed = derived_seed(recipe.seed, Purpose.FIT)
        size = TEXT_BLOCKS if built.models else BLOCKS
        store = Store.create(path, seed, blocks_a_shard=size, models=built.models, recipe=own)
    watching = Product(built.base, watched=list(built.features.values()))
    draw_into(store, watching, built.base, recipe.fit, progress)
    return Draws.load(store)
