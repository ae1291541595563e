"""What may change when a run goes on, and what is refused: another recipe, or damaged shards."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from quasir import recipes
from quasir.core.formatting import command as format_command
from quasir.core.progress import Reporter
from quasir.errors import StoreError
from quasir.recipes.parts import Part
from quasir.recipes.schema import Recipe, ServerSpec
from quasir.store import Store
from quasir.store.context_store import ContextStore

FREE = {"about", "draws", "choose", "samples"}
"""Fields of a recipe that no draw depends on: they may change on resume."""


def without_address(part: Part) -> dict[str, Any]:
    """Return a server without what no draw depends on: where it is, and how it is asked."""
    free = {"url": "http://anywhere", "key": None, "concurrency": 16}
    return free if isinstance(part, ServerSpec) else {}


def recipe_hash(recipe: Recipe) -> str:
    """Return the hash of all that the draws depend on, as the recipe's file has it."""
    defaults = {name: Recipe.model_fields[name].get_default() for name in FREE}
    free = recipe.model_copy(update=defaults).changed(without_address)
    free.model_fields_set.discard("samples")  # whether it is given does not matter either
    text = recipes.dump(free)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def read_checked(folder: Path, store: Store) -> Recipe:
    """Return the recipe of a run, as it is kept in its folder."""
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


def check_or_forget(store: Store | ContextStore, repair: bool, reporter: Reporter) -> None:
    """Refuse damaged shards, or with `repair` forget them, so that they are drawn again."""
    if not repair:
        store.check()
        return
    damaged = store.damaged(marks=True)
    if damaged:
        reporter.say(f"drawing {len(damaged)} damaged shards again")
        store.forget(damaged)


def command(name: str, folder: str | Path, *options: Any, recipe: Recipe | None = None) -> str:
    """Return a command on a run, as it can be copied into a shell."""
    own = recipe is not None and any(spec.python for spec in recipe.features.values())
    return format_command(name, folder, *options, own_code=own)
