"""A run that can draw: its recipe is read, its models are loaded, and its targets are fixed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from quasir import recipes
from quasir.core.files import hash_of, is_file, named_folder, write_bytes, write_text
from quasir.core.progress import Progress, Quiet, Reporter
from quasir.core.scores import check_pair
from quasir.core.streams import Purpose, derived_seed
from quasir.core.types import Proposal
from quasir.draws.ceiling import BASE_DRAWS, check_by_base, ratio_bounds, refuse_cut_support
from quasir.draws.draw_blocks import cut_warnings
from quasir.engines import Engine
from quasir.errors import InputError, QuasirError, StoreError
from quasir.recipes.building import located, own_files, portable
from quasir.recipes.placeholders import (
    Context,
    check_filled,
    fields_of,
    read_contexts,
    refuse_missing,
    unfilled,
)
from quasir.recipes.schema import Recipe, Source
from quasir.runs.contexts import Builder, Entry, WorkerSpec, entries_of, write_table
from quasir.runs.draw_shards import draw_missing
from quasir.runs.fitting import DRAWS, FILE, FIT, find_proposal, fit_lambdas, searches, was_found
from quasir.runs.integrity import (
    must_be_possible,
    read_checked,
    recipe_hash,
    refuse_changes,
    refuse_others,
)
from quasir.store import Store
from quasir.store.manifest import BLOCKS_A_SHARD, MANIFEST
from quasir.store.store import CONTEXTS, ContextStore, is_context_run, open_store
from quasir.targets.product import Product

TEXT_BLOCKS_A_SHARD = 4  # 4,096 texts: a quarter of a minute for a small model on two cores
RecipeSource: TypeAlias = str | Path | Mapping[str, Any]
"""A built-in recipe's name, a YAML file, a run's folder, or a recipe as a dictionary."""


@dataclass(frozen=True)
class Order:
    """What a run is to be, checked before anything is loaded or written."""

    recipe: Recipe
    recipe_dir: Path  # of the recipe's own files
    folder: Path  # of the run
    contexts: list[Context] | None = None  # those that are given; a run that goes on has its own


def prepare(
    recipe: RecipeSource,
    out: str | Path | None = None,
    *,
    context: str | None = None,
    contexts: str | Path | Sequence[Any] | None = None,
    column: str | None = None,
    **changes: Any,
) -> Order:
    """Read a recipe and the contexts that are given; a mistake leaves no file."""
    folder = folder_of(recipe, out)
    over = is_context_run(folder)
    if context is not None and (contexts is not None or over):
        raise InputError("a run has one context or many: give --context or --contexts, not both.")
    read, recipe_dir = read_recipe(recipe, context, **changes)
    given = None
    if contexts is not None:
        names = fields_of(read)
        given = read_contexts(contexts, column, names[0] if len(names) == 1 else None)
        refuse_missing(read, given)
        if is_file(folder / MANIFEST) and not over:
            raise InputError(f"{folder} is a run without contexts: give another folder with --out.")
    elif column is not None:
        raise InputError("a column is that of contexts: give them too.")
    elif not over:
        check_filled(read)
        if read.over is not None:
            raise InputError(
                f"over: {read.over} is of contexts, and this run has no contexts: give them with "
                "--contexts, or leave over out."
            )
    return Order(read, recipe_dir, folder, given)


def folder_of(recipe: RecipeSource, out: str | Path | None) -> Path:
    """Return the folder of a run: `out`, the recipe if it is a run's folder, or runs/NAME."""
    if out is not None:
        folder = named_folder(out)
    elif isinstance(recipe, Mapping):
        digest = hashlib.sha256(recipes.dump(recipes.from_dict(recipe)).encode()).hexdigest()
        folder = Path("runs") / f"recipe-{digest[:8]}"
    else:
        folder = Path(recipe)
        folder = folder if is_file(folder / "recipe.yaml") else Path("runs") / folder.stem
    must_be_possible(folder)
    return folder


def read_recipe(
    recipe: RecipeSource, context: str | None = None, **changes: Any
) -> tuple[Recipe, Path]:
    """Return a checked recipe with its context filled in, and the folder of its files."""
    if isinstance(recipe, Mapping):
        return recipes.from_dict(recipe, context, **changes), Path()
    source = recipes.find(recipe)
    return recipes.read(source, context, **changes), source.parent


@dataclass(frozen=True, kw_only=True)
class ActiveRun:
    """A run that can draw; `begin` makes one. `stored_run.Run` reads one without its models."""

    folder: Path
    recipe: Recipe  # with the lambdas that all contexts share
    entries: list[Entry]  # its contexts; an ordinary run has one
    store: Store
    builder: Builder

    @cached_property
    def pair(self) -> tuple[Product, Proposal]:
        """The target and the proposal of its first context."""
        return self.builder.pair(self.entries[0])

    def draw(self, n: int, progress: Progress = False, engine: Engine | None = None) -> int:
        """Draw what a run of n draws, or its rounds so far, lacks; return how many were made."""
        return draw_missing(
            self.store,
            n,
            self.entries,
            self.builder,
            load=WorkerSpec.of(self.builder, self.entries, self.store),
            progress=progress,
            engine=engine,
        )


def begin(
    order: Order,
    *,
    allow_code: bool = False,
    shards_at: str | None = None,
    budget: int | str | None = None,
    reporter: Reporter | None = None,
    engine: Engine | None = None,
) -> ActiveRun:
    """Load the models, search a proposal, and fit lambda where it is not known; or resume a run."""
    reporter, folder, contexts = reporter or Quiet(), order.folder, order.contexts
    recipe, recipe_dir = located(order.recipe, order.recipe_dir), order.recipe_dir
    begun = (folder / MANIFEST).is_file()
    if contexts is None and not is_context_run(folder):
        for warning in unfilled(recipe):
            reporter.say(f"! {warning}")
    if not begun and recipe_dir.resolve() != folder.resolve() and not _is_free(folder, recipe):
        raise InputError(f"{folder} is not empty and holds no run: give another folder with --out.")
    entries = [Entry.only(recipe.seed)]
    if contexts is not None:
        entries = [Entry.of(context, recipe.seed) for context in contexts]
    if begun:
        was = located(recipes.read_run(folder), folder).proposal
        open_ = recipe.proposal.searched or "proposal" not in recipe.model_fields_set
        if open_ and (was_found(was) or was == Source() or recipe.proposal.searched):
            code, drawn_with = _code_of(recipe, recipe_dir), open_store(folder).manifest.code
            refuse_others("code", {name: drawn_with.get(name) for name in code}, code, folder)
            recipe, recipe_dir = recipe.model_copy(update={"proposal": was}), folder
    elif searches(recipe, reporter):
        keep_code(recipe, recipe_dir, folder)
        recipe = find_proposal(recipe, folder, entries, budget, allow_code, reporter, engine)
        recipe_dir = folder  # which has what was found, and the recipe's own files
    builder = Builder(recipe, recipe_dir, allow_code)
    if begun:
        return _resume(builder, contexts, folder, shards_at)
    # Every context is built, so that a mistake is found before anything is drawn.
    models, *_ = [builder.built(entry).models for entry in entries]
    if recipe.unfitted:
        recipe, entries = fit_lambdas(recipe, builder, entries, folder, reporter)
        builder.recipe = recipe
    if contexts is None:
        entries = [_examined(builder, entries[0], BASE_DRAWS)]
    else:
        entries = _all_examined(builder, entries, reporter)
    folder.mkdir(parents=True, exist_ok=True)
    kept = keep_recipe(recipe, folder)
    facts: dict[str, Any] = {
        "models": models,
        "code": _code_of(builder.recipe, builder.folder),
        "shards_at": shards_at,
    }
    keep_code(recipe, recipe_dir, folder)
    size = TEXT_BLOCKS_A_SHARD if models else BLOCKS_A_SHARD
    if contexts is None:
        check = entries[0].base_check
        facts |= {"base_check": None if check is None else check.to_dict()}
        store = Store.create(folder, recipe.seed, size, recipe=recipe_hash(kept), **facts)
    else:
        table = write_table(folder, entries)
        facts |= {"recipe": recipe_hash(kept, table), "contexts": table, "rounds": []}
        store = ContextStore.create(folder, recipe.seed, size, **facts)
    return ActiveRun(folder=folder, recipe=recipe, entries=entries, store=store, builder=builder)


def _resume(
    builder: Builder, contexts: Sequence[Context] | None, folder: Path, shards_at: str | None
) -> ActiveRun:
    store, recipe = open_store(folder), builder.recipe
    before = located(read_checked(folder, store), folder)
    refuse_changes(before, recipe, folder)
    entries = entries_of(store)
    if contexts is not None:
        _refuse_other_contexts(entries, contexts, folder)
    if shards_at is not None:
        refuse_others("shards_at", store.manifest.shards_at, shards_at, folder)
    recipe = builder.recipe = recipe.model_copy(update={"fitted": before.fitted})
    models = builder.built(entries[0]).models
    refuse_others("code", store.manifest.code, _code_of(builder.recipe, builder.folder), folder)
    refuse_others("models", store.manifest.models, models, folder)
    keep_recipe(recipe, folder)  # some of its fields may have changed
    return ActiveRun(folder=folder, recipe=recipe, entries=entries, store=store, builder=builder)


def keep_recipe(recipe: Recipe, folder: Path) -> Recipe:
    """Write a recipe into its run, and return it as it is kept."""
    kept = portable(recipe, folder)
    write_text(folder / "recipe.yaml", recipes.dump(kept))
    return kept


def _code_of(recipe: Recipe, recipe_dir: Path) -> dict[str, str]:
    return {name: hash_of(path) for name, path in own_files(recipe, recipe_dir).items()}


def keep_code(recipe: Recipe, recipe_dir: Path, folder: Path) -> None:
    """Copy the files of a recipe's own features and guides into the run, from next to it."""
    for name, path in own_files(recipe, recipe_dir).items():
        if path.resolve() != (folder / name).resolve():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(folder / name, path.read_bytes())


def _is_free(folder: Path, recipe: Recipe) -> bool:
    """Return whether a folder is empty, but for what this run left before its first manifest."""
    if not folder.is_dir():
        return True
    there = {path.name for path in folder.iterdir()} - {".lock", FIT}
    if DRAWS in there:  # a search that was killed; the recipe's code came before it
        there -= {DRAWS, FILE, *(Path(name).parts[0] for name in own_files(recipe, folder))}
    if "recipe.yaml" not in there:
        return not there
    try:
        left = located(recipes.read(folder / "recipe.yaml"), folder)
        refuse_changes(left, recipe, folder)
    except QuasirError:
        return False
    code = {Path(name).parts[0] for name in own_files(recipe, folder)}
    empty = not any((folder / "draws").glob("*"))
    return empty and there <= {"recipe.yaml", CONTEXTS, "draws", *code}


def _all_examined(builder: Builder, entries: list[Entry], reporter: Reporter) -> list[Entry]:
    """Return the contexts with what is known about them; some, but not all, may have failed."""
    checks, made = max(8, BASE_DRAWS // len(entries)), list[Entry]()
    with reporter.stage("checking contexts") as report:
        for done, entry in enumerate(entries, start=1):
            try:
                known = entry if entry.failed is not None else _examined(builder, entry, checks)
            except InputError as error:
                known = replace(entry, failed=str(error))
            made.append(known)
            report(done, len(entries), done)
    if all(entry.failed is not None for entry in made):
        raise InputError(f"no context can be served. The first: {made[0].failed}")
    return made


def _examined(builder: Builder, entry: Entry, checks: int) -> Entry:
    target, proposal = builder.pair(entry)
    check_pair(target, proposal)
    refuse_cut_support(target, proposal)
    if not entry.fields:  # the manifest has what is known, from the first draw on
        return replace(entry, base_check=check_by_base(target, proposal, entry.seed, checks))
    seed = derived_seed(entry.seed, Purpose.SUPPORT)
    check = check_by_base(target, proposal, seed, checks)
    known, warnings = ratio_bounds(target, proposal), cut_warnings(target, proposal)
    builder.release(entry)
    return replace(entry, known=known, warnings=warnings, base_check=check)


def _refuse_other_contexts(entries: list[Entry], contexts: Sequence[Context], folder: Path) -> None:
    """Refuse to resume a run with other contexts, and name the first that differs."""
    for entry, context in zip(entries, contexts, strict=False):
        if entry.context.key != context.key:
            raise StoreError(
                f"{context.where}: {folder} is a run over other contexts: this one was "
                f"{entry.context.key[:120]}, now {context.key[:120]}. Give another folder with "
                "--out."
            )
    if len(entries) != len(contexts):
        raise StoreError(
            f"{folder} is a run over {len(entries):,} contexts, and {len(contexts):,} were given: "
            "give another folder with --out."
        )
