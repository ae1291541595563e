"""A run that can draw: its models are loaded, and its targets are fixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from quasir import recipes
from quasir.core.files import hash_of, write_bytes, write_text
from quasir.core.progress import Progress, Quiet, Reporter
from quasir.core.scores import check_pair
from quasir.core.streams import Purpose, derived_seed
from quasir.core.types import Proposal
from quasir.draws.ceiling import ratio_bounds
from quasir.draws.draw_blocks import cut_warnings
from quasir.draws.support import BASE_DRAWS, check_by_base, refuse_cut_support
from quasir.engines import Engine
from quasir.errors import InputError, QuasirError, StoreError
from quasir.recipes.building import located, own_files, portable
from quasir.recipes.placeholders import Context
from quasir.recipes.schema import Recipe
from quasir.runs.contexts import Builder, Entry, WorkerSpec, entries_of, write_table
from quasir.runs.draw_shards import draw_missing
from quasir.runs.finding import DRAWS, FILE, find_proposal, searches, was_found
from quasir.runs.fitting import FIT, fit_lambdas
from quasir.runs.integrity import read_checked, recipe_hash, refuse_changes, refuse_others
from quasir.store import Store
from quasir.store.context_store import CONTEXTS, ContextStore, open_store
from quasir.store.manifest import BLOCKS_A_SHARD, MANIFEST
from quasir.targets.product import Product

TEXT_BLOCKS_A_SHARD = 4
"""4,096 texts: a quarter of a minute for a small model on two cores."""


@dataclass(frozen=True, kw_only=True)
class ActiveRun:
    """A run that can draw; make one with `ActiveRun.begin`, which also resumes a run.

    To read a run without loading its models, use `quasir.runs.stored_run.Run`.
    """

    folder: Path
    recipe: Recipe  # with the lambdas that all contexts share
    entries: list[Entry]  # its contexts; an ordinary run has one
    store: Store
    builder: Builder

    @classmethod
    def begin(
        cls,
        recipe: Recipe,
        recipe_dir: Path,
        folder: Path,
        *,
        contexts: Sequence[Context] | None = None,
        allow_code: bool = False,
        reporter: Reporter | None = None,
        shards_at: str | None = None,
        budget: int | str | None = None,
        engine: Engine | None = None,
    ) -> ActiveRun:
        """Begin a run, or resume the one in the folder if recipe and contexts are the same."""
        reporter = reporter or Quiet()
        recipe, begun = located(recipe, recipe_dir), (folder / MANIFEST).is_file()
        elsewhere = recipe_dir.resolve() != folder.resolve()
        if not begun and elsewhere and not _is_free(folder, recipe):
            raise InputError(
                f"{folder} is not empty and holds no run: give another folder with --out."
            )
        entries = [Entry.only(recipe.seed)]
        if contexts is not None:
            entries = [Entry.of(context, recipe.seed) for context in contexts]
        if begun:
            was = located(recipes.read_run(folder), folder).proposal
            open_ = recipe.proposal.searched or "proposal" not in recipe.model_fields_set
            if open_ and (was_found(was) or recipe.proposal.searched):
                recipe, recipe_dir = recipe.model_copy(update={"proposal": was}), folder
        elif searches(recipe, reporter):
            keep_code(recipe, recipe_dir, folder)
            options = budget, allow_code, reporter, engine
            recipe = find_proposal(recipe, folder, entries, *options)
            recipe_dir = folder  # which has what was found, and the recipe's own files
        builder = Builder(recipe, recipe_dir, allow_code)
        if begun:
            return cls._resume(builder, contexts, folder, shards_at)
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
        kept = _keep_recipe(recipe, folder)
        code = _code_of(builder)
        keep_code(recipe, recipe_dir, folder)
        size = TEXT_BLOCKS_A_SHARD if models else BLOCKS_A_SHARD
        facts: dict[str, Any] = {"models": models, "code": code, "shards_at": shards_at}
        if contexts is None:
            check = entries[0].base_check
            facts |= {"base_check": None if check is None else check.to_dict()}
            store = Store.create(folder, recipe.seed, size, recipe=recipe_hash(kept), **facts)
        else:
            table = write_table(folder, entries)
            facts |= {"recipe": recipe_hash(kept, table), "contexts": table, "rounds": []}
            store = ContextStore.create(folder, recipe.seed, size, **facts)
        return cls(folder=folder, recipe=recipe, entries=entries, store=store, builder=builder)

    @classmethod
    def _resume(
        cls,
        builder: Builder,
        contexts: Sequence[Context] | None,
        folder: Path,
        shards_at: str | None,
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
        refuse_others("code", store.manifest.code, _code_of(builder), folder)
        refuse_others("models", store.manifest.models, models, folder)
        _keep_recipe(recipe, folder)  # some of its fields may have changed
        return cls(folder=folder, recipe=recipe, entries=entries, store=store, builder=builder)

    @cached_property
    def _first(self) -> tuple[Product, Proposal]:
        return self.builder.pair(self.entries[0])

    @property
    def target(self) -> Product:
        """The target of an ordinary run."""
        return self._first[0]

    @property
    def proposal(self) -> Proposal:
        """The proposal of an ordinary run."""
        return self._first[1]

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


def _keep_recipe(recipe: Recipe, folder: Path) -> Recipe:
    """Write a recipe into its run, and return it as it is kept."""
    kept = portable(recipe, folder)
    write_text(folder / "recipe.yaml", recipes.dump(kept))
    return kept


def _code_of(builder: Builder) -> dict[str, str]:
    files = own_files(builder.recipe, builder.folder)
    return {name: hash_of(path) for name, path in files.items()}


def keep_code(recipe: Recipe, recipe_dir: Path, folder: Path) -> None:
    """Copy the files of a recipe's own features and guides into the run, from next to it."""
    for name, path in own_files(recipe, recipe_dir).items():
        if path.resolve() != (folder / name).resolve():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(folder / name, path.read_bytes())


def _is_free(folder: Path, recipe: Recipe) -> bool:
    """Return whether a folder is empty, but for what this run left before its first manifest.

    That is a lock, the draws of a fit, and, where the disk was full or the process was killed
    just then, the recipe itself with its code and contexts and an empty folder for the shards.
    """
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
                known = entry.without(str(error))
            made.append(known)
            report(done, len(entries), done)
    if all(entry.failed is not None for entry in made):
        raise InputError(f"no context can be served. The first: {made[0].failed}")
    return made


def _examined(builder: Builder, entry: Entry, checks: int) -> Entry:
    """Return a context with what is known about it; refuse a proposal that cuts its target."""
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
