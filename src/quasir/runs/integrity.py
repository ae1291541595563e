"""What a run refuses: folders that cannot hold it, another recipe, other models, damaged shards."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import yaml

from quasir import recipes
from quasir.core.files import shortened
from quasir.core.formatting import command as format_command
from quasir.errors import InputError, StoreError
from quasir.recipes.parts import Part
from quasir.recipes.schema import Recipe, ServerSpec, Source
from quasir.store import Store

FREE = {"about", "draws", "choose", "samples"}
"""Fields of a recipe that no draw depends on: they may change on resume."""


def without_address(part: Part) -> dict[str, Any]:
    """Return a server without what no draw depends on: where it is, and how it is asked."""
    free = {"url": "http://anywhere", "key": None, "concurrency": 16}
    return free if isinstance(part, ServerSpec) else {}


def must_be_possible(folder: Path) -> None:
    """Refuse a path that cannot be a folder, before anything is loaded or drawn."""
    shown = shortened(folder)
    if "\0" in str(folder):
        raise InputError(f"{shown!r} cannot be the folder of a run: it has a null character.")
    try:
        paths = (folder, *folder.parents)
        there = next(path for path in paths if path.exists() or path.is_symlink())
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"{shown} cannot be the folder of a run ({why}): give another folder."
        ) from error
    if not there.is_dir():
        at = "" if there == folder else f", since {shortened(there)} is none"
        raise InputError(f"{shown} cannot be the folder of a run{at}: give another folder.")


def recipe_hash(recipe: Recipe, table: str | None = None) -> str:
    """Return the hash of all that the draws depend on: the recipe, and the table of contexts."""
    defaults = {name: Recipe.model_fields[name].get_default() for name in FREE}
    free = recipe.model_copy(update=defaults).changed(without_address)
    free.model_fields_set.discard("samples")  # whether it is given does not matter either
    if free.proposal == Source():
        free.model_fields_set.discard("proposal")
    digest = hashlib.sha256(recipes.dump(free).encode("utf-8", "surrogatepass")).hexdigest()
    return digest if table is None else hashlib.sha256(f"{digest} {table}".encode()).hexdigest()


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
    if recipe_hash(recipe, store.manifest.contexts) != store.manifest.recipe:
        raise StoreError(
            f"{path} is not the recipe that the draws beside it were made with: it was changed by "
            f"hand, in something else than {', '.join(sorted(FREE))}. Put it back, or begin "
            "another run with --out."
        )
    return recipe


def refuse_changes(before: Recipe, now: Recipe, folder: Path) -> None:
    """Refuse to resume a run with another recipe, and name what changed."""
    was, is_now = (
        yaml.safe_load(recipes.dump(recipe.changed(without_address))) for recipe in (before, now)
    )
    for recipe, kept in ((before, was), (now, is_now)):
        if recipe.proposal == Source():
            kept.pop("proposal", None)  # the default, whether it is written or not
    if "fitted" not in is_now:  # the run has its fitted lambda; one that is given must be the same
        was.pop("fitted", None)
    changed = [
        f"{name} was {_shown(was.get(name))}, now {_shown(is_now.get(name))}"
        for name in dict.fromkeys([*was, *is_now])
        if name not in FREE and was.get(name) != is_now.get(name)
    ]
    if changed:
        raise StoreError(
            f"{folder} is a run of another recipe: {'; '.join(changed)}. This recipe would give "
            "other draws: give another folder with --out, or the recipe as it was "
            f"({folder / 'recipe.yaml'})."
        )


def _shown(value: Any) -> str:
    text = "absent" if value is None else str(value)
    return text if len(text) <= 120 else text[:117] + "..."


def refuse_others(what: str, was: Any, now: Any, folder: Path) -> None:
    """Refuse to resume a run where something that it depends on has changed."""
    if was != now:
        raise StoreError(
            f"{folder} was begun with other {what}: {was}, now {now}. The draws would come from "
            "two distributions: give another folder with --out."
        )


def check_seed(store: Store, seed: int | None) -> None:
    """Refuse a seed that is not the run's: its draws are made."""
    if seed is not None and seed != store.seed:
        raise InputError(
            f"{store.folder} was drawn with seed {store.seed}, not {seed}: its draws are made. "
            "Begin another run for another seed."
        )


def command(name: str, folder: str | Path, *options: Any, recipe: Recipe | None = None) -> str:
    """Return a command on a run, as it can be copied into a shell."""
    own = recipe is not None and any(spec.python for spec in recipe.features.values())
    return format_command(name, folder, *options, own_code=own)
