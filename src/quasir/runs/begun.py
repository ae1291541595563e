"""A begun run: its models are loaded, its target is fixed, and it can draw."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quasir import recipes
from quasir.core.files import hash_of, write_bytes, write_text
from quasir.core.progress import Progress
from quasir.core.scores import check_pair
from quasir.core.types import Proposal
from quasir.draws.support import check_by_base, refuse_cut_support
from quasir.errors import InputError, QuasirError, StoreError
from quasir.recipes.building import build, located, own_files, portable, resolve
from quasir.recipes.schema import Recipe
from quasir.runs.fitting import FIT, fitting_draws
from quasir.runs.integrity import FREE, read_checked, recipe_hash, without_address
from quasir.runs.worker_recipe import RecipeParts
from quasir.store import Store
from quasir.store.manifest import BLOCKS_A_SHARD, MANIFEST
from quasir.targets.product import Product

__all__ = [
    "TEXT_BLOCKS_A_SHARD",
    "ActiveRun",
    "check_seed",
    "keep_code",
    "refuse_changes",
    "refuse_others",
]

TEXT_BLOCKS_A_SHARD = 4
"""4,096 texts: a quarter of a minute for a small model on two cores."""


@dataclass(frozen=True, kw_only=True)
class ActiveRun:
    """A run that can draw.

    Make one with `ActiveRun.begin`, which also resumes a run. To read a run without loading its
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
    ) -> ActiveRun:
        """Begin a run, or resume the one in the folder if it has the same recipe."""
        store = Store.open(folder) if (folder / MANIFEST).is_file() else None
        recipe = located(recipe, beside)
        if store is not None:
            before = located(read_checked(folder, store), folder)
            refuse_changes(before, recipe, folder)
            recipe = recipe.model_copy(update={"fitted": before.fitted})
        elif beside.resolve() != folder.resolve() and not _is_free(folder, recipe):
            raise InputError(
                f"{folder} is not empty and holds no run: give another folder with --out."
            )
        files = own_files(recipe, beside)
        built = build(recipe, beside, allow_code)
        code = {name: hash_of(path) for name, path in files.items()}
        if store is not None:
            if shards_at is not None:
                refuse_others("shards_at", store.manifest.shards_at, shards_at, folder)
            refuse_others("code", store.manifest.code, code, folder)
            refuse_others("models", store.manifest.models, built.models, folder)
            resolved, target = resolve(recipe, built)
            return cls(
                folder=folder,
                recipe=resolved,
                store=store,
                target=target,
                proposal=built.proposal,
            )
        draws = fitting_draws(recipe, built, folder, progress) if recipe.unfitted else None
        resolved, target = resolve(recipe, built, draws=draws)
        check_pair(target, built.proposal)
        refuse_cut_support(target, built.proposal)
        check = check_by_base(target, built.proposal, recipe.seed)
        folder.mkdir(parents=True, exist_ok=True)
        kept = portable(resolved, folder)
        write_text(folder / "recipe.yaml", recipes.dump(kept))
        keep_code(recipe, beside, folder)
        store = Store.create(
            folder,
            recipe.seed,
            TEXT_BLOCKS_A_SHARD if built.models else BLOCKS_A_SHARD,
            models=built.models,
            recipe=recipe_hash(kept),
            code=code,
            shards_at=shards_at,
            base_check=None if check is None else check.to_dict(),
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
    """Copy the files of a recipe's own features and guides into the run, from next to it."""
    for name, path in own_files(recipe, source).items():
        if path.resolve() != (folder / name).resolve():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(folder / name, path.read_bytes())


def _is_free(folder: Path, recipe: Recipe) -> bool:
    """Return whether a folder is empty, but for what this run left before its first manifest.

    That is a lock, the draws of a fit, and, where the disk was full or the process was killed
    just then, the recipe itself with its code and an empty folder for the shards.
    """
    if not folder.is_dir():
        return True
    there = {path.name for path in folder.iterdir()} - {".lock", FIT}
    if "recipe.yaml" not in there:
        return not there
    try:
        left = located(recipes.read(folder / "recipe.yaml"), folder)
        refuse_changes(left, recipe, folder)
    except QuasirError:
        return False
    code = {Path(name).parts[0] for name in own_files(recipe, folder)}
    empty = not any((folder / "draws").glob("*"))
    return empty and there <= {"recipe.yaml", "draws", *code}


def refuse_changes(before: Recipe, now: Recipe, folder: Path) -> None:
    """Refuse to resume a run with another recipe, and name what changed."""
    changed = []
    before, now = before.changed(without_address), now.changed(without_address)
    for name in Recipe.model_fields:
        was, is_now = getattr(before, name), getattr(now, name)
        if name == "fitted":
            # The run has its fitted lambda; one that the recipe gives must be the same.
            if is_now and was != is_now:
                changed.append(f"fitted was {_shown(was)}, now {_shown(is_now)}")
        elif name not in FREE and was != is_now:
            alias = "lambda" if name == "coefficients" else name
            changed.append(f"{alias} was {_shown(was)}, now {_shown(is_now)}")
    same = now.model_copy(update={"fitted": before.fitted})
    if not changed and recipe_hash(before) != recipe_hash(same):
        changed.append("a setting of the base or the proposal was left out and is given now")
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


def refuse_others(what: str, was: Any, now: Any, folder: Path) -> None:
    """Refuse to resume a run where something that it depends on has changed."""
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
    if plain == {}:
        return "the base" if hasattr(value, "model_dump") else "absent"
    text = str(plain)
    return text if len(text) <= 120 else text[:117] + "..."
