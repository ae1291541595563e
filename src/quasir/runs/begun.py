"""A run that was begun: its models are loaded, its target is fixed, and it can draw."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quasir import recipes
from quasir.core.files import hash_of, write_bytes, write_text
from quasir.core.progress import Progress
from quasir.core.types import Proposal
from quasir.errors import InputError, StoreError
from quasir.recipes.building import build, python_files, resolve
from quasir.recipes.paths import located, portable
from quasir.recipes.schema import Recipe
from quasir.runs.worker_recipe import RecipeParts
from quasir.store import Store
from quasir.store.manifest import BLOCKS_A_SHARD, MANIFEST
from quasir.targets.product import Product

__all__ = ["BegunRun", "keep_code", "refuse_changes"]

TEXT_BLOCKS_A_SHARD = 4
"""4,096 texts: a quarter of a minute for a small model on two cores."""

FREE = {"about", "draws", "choose", "samples", "coefficients"}
"""What may change between two calls without changing a draw that is there; lambda is told apart."""


@dataclass(frozen=True, kw_only=True)
class BegunRun:
    """A run that can draw.

    Make one with `BegunRun.begin`, which goes on with a run that is there. What needs no model
    needs no `BegunRun`: see `quasir.runs.on_disk.Run`.
    """

    folder: Path
    recipe: Recipe
    store: Store
    target: Product
    proposal: Proposal

    @classmethod
    def begin(
        cls,
        recipe: Recipe,
        beside: Path,
        folder: Path,
        *,
        allow_code: bool = False,
        progress: Progress = False,
        shards_at: str | None = None,
    ) -> BegunRun:
        """Begin a run, or go on with it where the folder holds one of the same recipe.

        Parameters
        ----------
        recipe : Recipe
        beside : Path
            The folder of the recipe's file, in which a user's Python features are looked for.
        folder : Path
        allow_code : bool
            Whether the recipe's Python features may be run.
        progress : bool or callable
            Of the fit of lambda.
        shards_at : str, optional
            An address of fsspec to write the shards to, instead of the run's folder.

        Raises
        ------
        StoreError
            Where the folder holds a run of another recipe, of other code or of other models.
        """
        there = (folder / MANIFEST).is_file()
        recipe = located(recipe, beside)
        if there:
            before = located(recipes.read(folder / "recipe.yaml"), folder)
            refuse_changes(before, recipe, folder)
            update = {"coefficients": before.coefficients}
            recipe = recipe.model_copy(update=update)
        elif beside.resolve() != folder.resolve() and _holds_files(folder):
            raise InputError(
                f"{folder} is not empty and holds no run: give another folder with --out."
            )
        files = {path.name: path for path in python_files(recipe, beside)}
        built = build(recipe, beside, allow_code)
        code = {name: hash_of(path) for name, path in files.items()}
        if there:
            store = Store.open(folder)
            if shards_at is not None:
                _refuse_others("shards_at", store.manifest.shards_at, shards_at, folder)
            _refuse_others("code", store.manifest.code, code, folder)
            _refuse_others("models", store.manifest.models, built.models, folder)
            resolved, target = resolve(recipe, built)
            return cls(
                folder=folder,
                recipe=resolved,
                store=store,
                target=target,
                proposal=built.proposal,
            )
        resolved, target = resolve(recipe, built, progress)
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / "recipe.yaml", recipes.dump(portable(resolved, folder)))
        keep_code(recipe, beside, folder)
        store = Store.create(
            folder,
            recipe.seed,
            TEXT_BLOCKS_A_SHARD if built.models else BLOCKS_A_SHARD,
            models=built.models,
            code=code,
            shards_at=shards_at,
        )
        return cls(
            folder=folder, recipe=resolved, store=store, target=target, proposal=built.proposal
        )

    @property
    def parts(self) -> RecipeParts:
        """What loads target and proposal in another process."""
        return RecipeParts.of(self.recipe, self.folder, self.store.manifest.models)

    def keep_recipe(self) -> None:
        """Write the recipe again, where what is free to change has changed."""
        kept = portable(self.recipe, self.folder)
        write_text(self.folder / "recipe.yaml", recipes.dump(kept))


def keep_code(recipe: Recipe, source: Path, folder: Path) -> None:
    """Copy the files of a user's own features into the run, from next to the recipe."""
    for path in python_files(recipe, source):
        if path.resolve() != (folder / path.name).resolve():
            write_bytes(folder / path.name, path.read_bytes())


def _holds_files(folder: Path) -> bool:
    return folder.is_dir() and any(path.name != ".lock" for path in folder.iterdir())


def refuse_changes(before: Recipe, now: Recipe, folder: Path) -> None:
    """Refuse to go on with another recipe, and name what changed."""
    changed = []
    for name in Recipe.model_fields:
        was, is_now = getattr(before, name), getattr(now, name)
        if name == "coefficients":
            # Lambda is fitted at first; one that is given must be that one.
            if any(before.coefficients.get(feature) != value for feature, value in is_now.items()):
                changed.append(f"lambda was {was}, now {is_now}")
        elif name not in FREE and was != is_now:
            changed.append(f"{name} was {_shown(was)}, now {_shown(is_now)}")
    if changed:
        raise StoreError(
            f"{folder} is a run of another recipe: {'; '.join(changed)}. Its draws are not those "
            "that this recipe would give: give another folder with --out, or the recipe as it was "
            f"({folder / 'recipe.yaml'})."
        )


def _refuse_others(what: str, was: Any, now: Any, folder: Path) -> None:
    if was != now:
        raise StoreError(
            f"{folder} was begun with other {what}: {was}, now {now}. Draws of both would be of "
            "two distributions: give another folder with --out."
        )


def _shown(value: Any) -> str:
    plain = value
    if hasattr(value, "model_dump"):
        plain = value.model_dump(exclude_defaults=True)
    elif isinstance(value, dict):
        plain = {
            key: part.model_dump(exclude_defaults=True) if hasattr(part, "model_dump") else part
            for key, part in value.items()
        }
    text = str(plain) if plain != {} else "the base"
    return text if len(text) <= 120 else text[:117] + "..."
