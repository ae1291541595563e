"""A begun run over contexts: its models are loaded, its targets are fixed, and it can draw."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from quasir import recipes
from quasir.core.files import hash_of, write_text
from quasir.core.progress import Quiet, Reporter
from quasir.core.scores import check_pair
from quasir.core.streams import Purpose, derived_seed
from quasir.draws.ceiling import ratio_bounds
from quasir.draws.draw_blocks import cut_warnings
from quasir.draws.support import BASE_DRAWS, check_by_base, refuse_cut_support
from quasir.errors import InputError, StoreError
from quasir.recipes.building import located, own_files, portable
from quasir.recipes.placeholders import Context, refuse_missing
from quasir.recipes.schema import Recipe
from quasir.runs.begun import TEXT_BLOCKS_A_SHARD, keep_code, refuse_changes, refuse_others
from quasir.runs.contexts.fitting import fit_contexts
from quasir.runs.contexts.maker import Builder, ContextParts
from quasir.runs.contexts.table import CONTEXTS, Entry, read_table, write_table
from quasir.runs.integrity import recipe_hash
from quasir.store.context_store import ContextStore
from quasir.store.manifest import BLOCKS_A_SHARD, MANIFEST

__all__ = ["BegunContexts", "contexts_recipe_hash", "read_contexts_recipe"]

FIT = "fit"
LEFT = {".lock", FIT, "recipe.yaml", CONTEXTS, "draws"}
"""What a run leaves that was stopped before its first manifest."""


def contexts_recipe_hash(recipe: Recipe, table: str) -> str:
    """Return the hash of all that the draws depend on: the recipe, and the table of contexts."""
    return hashlib.sha256(f"{recipe_hash(recipe)} {table}".encode()).hexdigest()


def read_contexts_recipe(folder: Path, store: ContextStore) -> Recipe:
    """Return the recipe of a run over contexts, as it is kept in its folder."""
    recipe = recipes.read_run(folder)
    table = store.manifest.contexts or ""
    if recipe.seed != store.seed or contexts_recipe_hash(recipe, table) != store.manifest.recipe:
        raise StoreError(
            f"{folder / 'recipe.yaml'} is not the recipe that the draws beside it were made with: "
            "it was changed by hand. Put the recipe back, or begin another run with --out."
        )
    return recipe


@dataclass(frozen=True, kw_only=True)
class BegunContexts:
    """A run over contexts that can draw; make one with `BegunContexts.begin`.

    Attributes
    ----------
    folder : Path
    recipe : Recipe
        With fields of the contexts, and the lambdas that all of them share.
    entries : list of Entry
    store : ContextStore
    maker : Builder
    """

    folder: Path
    recipe: Recipe
    entries: list[Entry]
    store: ContextStore
    maker: Builder

    @classmethod
    def begin(
        cls,
        recipe: Recipe,
        contexts: list[Context] | None,
        beside: Path,
        folder: Path,
        *,
        allow_code: bool = False,
        reporter: Reporter | None = None,
        shards_at: str | None = None,
    ) -> BegunContexts:
        """Begin a run, or resume the one in the folder if recipe and contexts are the same."""
        reporter = reporter or Quiet()
        recipe = located(recipe, beside)
        if (folder / MANIFEST).is_file():
            return cls._resumed(recipe, contexts, beside, folder, allow_code, shards_at)
        if contexts is None:
            raise InputError(f"{folder} holds no run, so its contexts are not known: give them.")
        refuse_missing(recipe, contexts)
        others = {p.name for p in folder.iterdir()} - LEFT if folder.is_dir() else set()
        code = {Path(name).parts[0] for name in own_files(recipe, beside)}
        if beside.resolve() != folder.resolve() and others - code:
            raise InputError(
                f"{folder} is not empty and holds no run: give another folder with --out."
            )
        maker = Builder(recipe, beside, allow_code)
        entries = [Entry.of(context, recipe.seed) for context in contexts]
        models = _checked(maker, contexts)
        if recipe.unfitted:
            recipe, entries = fit_contexts(recipe, maker, entries, folder / FIT, models, reporter)
            maker.recipe = recipe
        with reporter.stage("checking contexts") as report:
            entries = _known(maker, entries, lambda done: report(done, len(entries), done))
        if all(entry.failed is not None for entry in entries):
            raise InputError(f"no context can be served. The first: {entries[0].failed}")
        folder.mkdir(parents=True, exist_ok=True)
        kept = portable(recipe, folder)
        write_text(folder / "recipe.yaml", recipes.dump(kept))
        keep_code(recipe, beside, folder)
        table = write_table(folder, entries)
        store = ContextStore.create(
            folder,
            recipe.seed,
            TEXT_BLOCKS_A_SHARD if models else BLOCKS_A_SHARD,
            models=models,
            recipe=contexts_recipe_hash(kept, table),
            code={name: hash_of(path) for name, path in own_files(recipe, beside).items()},
            shards_at=shards_at,
            contexts=table,
            rounds=[],
        )
        return cls(folder=folder, recipe=recipe, entries=entries, store=store, maker=maker)

    @classmethod
    def _resumed(
        cls,
        recipe: Recipe,
        contexts: list[Context] | None,
        beside: Path,
        folder: Path,
        allow_code: bool,
        shards_at: str | None,
    ) -> BegunContexts:
        store = ContextStore.open(folder)
        before = located(read_contexts_recipe(folder, store), folder)
        refuse_changes(before, recipe, folder)
        recipe = recipe.model_copy(update={"fitted": before.fitted})
        entries = read_table(folder, store.manifest.contexts or "")
        if contexts is not None:
            _refuse_others(entries, contexts, folder)
        if shards_at is not None:
            refuse_others("shards_at", store.manifest.shards_at, shards_at, folder)
        code = {name: hash_of(path) for name, path in own_files(recipe, beside).items()}
        refuse_others("code", store.manifest.code, code, folder)
        maker = Builder(recipe, beside, allow_code)
        models = maker.built(entries[0].context).models
        refuse_others("models", store.manifest.models, models, folder)
        return cls(folder=folder, recipe=recipe, entries=entries, store=store, maker=maker)

    @property
    def parts(self) -> ContextParts:
        """A maker for another process."""
        models = self.store.manifest.models
        return ContextParts.of(self.recipe, self.entries, self.folder, models)

    def keep_recipe(self) -> None:
        """Write the recipe again, since some of its fields may have changed."""
        write_text(self.folder / "recipe.yaml", recipes.dump(portable(self.recipe, self.folder)))


def _checked(maker: Builder, contexts: list[Context]) -> list[dict[str, str | None]]:
    """Make the parts of every context, so that a mistake is found before anything is drawn."""
    models = [maker.built(context).models for context in contexts]
    return models[0]


def _known(maker: Builder, entries: list[Entry], report: Callable[[int], object]) -> list[Entry]:
    """Return the contexts with what is known about their ratios."""
    checks = max(8, BASE_DRAWS // len(entries))
    made = []
    for done, entry in enumerate(entries, start=1):
        made.append(entry if entry.failed is not None else _with_known(maker, entry, checks))
        report(done)
    return made


def _with_known(maker: Builder, entry: Entry, checks: int) -> Entry:
    target, proposal = maker.parts(entry)
    try:
        check_pair(target, proposal)
        refuse_cut_support(target, proposal)
    except InputError as error:
        return entry.without(str(error))
    seed = derived_seed(entry.seed, Purpose.SUPPORT)
    check = check_by_base(target, proposal, seed, checks)
    known, warnings = ratio_bounds(target, proposal), cut_warnings(target, proposal)
    maker.release(entry.context)
    return replace(entry, known=known, warnings=warnings, base_check=check)


def _refuse_others(entries: list[Entry], contexts: list[Context], folder: Path) -> None:
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
