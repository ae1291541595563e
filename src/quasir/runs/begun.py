"""A begun run: its models are loaded, its target is fixed, and it can draw."""

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

__all__ = ["TEXT_BLOCKS_A_SHARD", "BegunRun", "check_seed", "keep_code", "refuse_changes"]

TEXT_BLOCKS_A_SHARD = 4
"""4,096 texts: a quarter of a minute for a small model on two cores."""

FREE = {"about", "draws", "choose", "samples", "coefficients"}
"""Fields that may change on resume; lambda is checked separately."""


@dataclass(frozen=True, kw_only=True)
class BegunRun:
    """A run that can draw.

    Make one with `BegunRun.begin`, which also resumes a run. To read a run without loading its
    models, use `quasir.runs.on_disk.Run`.
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
        """Begin a run, or resume the one in the folder if it has the same recipe.

        Parameters
        ----------
        recipe : Recipe
        beside : Path
            The folder of the recipe's file, which also holds the user's Python features.
        folder : Path
        allow_code : bool
            Whether the recipe's Python features may be run.
        progress : bool or callable
            Progress of the fit of lambda.
        shards_at : str, optional
            An fsspec address to write the shards to, instead of the run's folder.

        Raises
        ------
        StoreError
            If the folder holds a run of another recipe, of other code or of other models.
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
        """A loader of target and proposal for another process."""
        return RecipeParts.of(self.recipe, self.folder, self.store.manifest.models)

    def keep_recipe(self) -> None:
        """Write the recipe again, since some of its fields may have changed."""
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
    """Refuse to resume a run with another recipe, and name what changed."""
    changed = []
    for name in Recipe.model_fields:
        was, is_now = getattr(before, name), getattr(now, name)
        if name == "coefficients":
            # The run has its lambda; one that the recipe gives must be the same.
            if any(before.coefficients.get(feature) != value for feature, value in is_now.items()):
                changed.append(f"lambda was {was}, now {is_now}")
        elif name not in FREE and was != is_now:
            changed.append(f"{name} was {_shown(was)}, now {_shown(is_now)}")
    if changed:
        raise StoreError(
            f"{folder} is a run of another recipe: {'; '.join(changed)}. This recipe would give "
            "other draws: give another folder with --out, or the recipe as it was "
            f"({folder / 'recipe.yaml'})."
        )


def check_seed(store: Store, seed: int | None) -> None:
    """Refuse a seed that is not the run's: its draws are made."""
    if seed is not None and seed != store.seed:
        raise InputError(
            f"{store.folder} was drawn with seed {store.seed}, not {seed}: its draws are made. "
            "Begin another run for another seed."
        )


def _refuse_others(what: str, was: Any, now: Any, folder: Path) -> None:
    if was != now:
        raise StoreError(
            f"{folder} was begun with other {what}: {was}, now {now}. The draws would come from "
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
