"""From a recipe to a finished run: fit, draw, estimate, sample, and write the results."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from quasir import recipes
from quasir.core.files import is_file, named_folder
from quasir.core.progress import Lines, Quiet, Reporter
from quasir.engines import Engine, Local
from quasir.errors import InputError, StoreError
from quasir.recipes import Recipe
from quasir.recipes.building import portable
from quasir.recipes.placeholders import (
    Context,
    check_filled,
    fields_of,
    read_contexts,
    refuse_missing,
)
from quasir.runs.active_run import ActiveRun
from quasir.runs.allocation import Need, allocated, need_of, pilot
from quasir.runs.contexts import draws_by_context
from quasir.runs.integrity import check_or_forget, must_be_possible
from quasir.runs.outcome import unfilled
from quasir.runs.outputs import write_outputs
from quasir.runs.shard_work import kept_draws
from quasir.runs.stored_run import Run
from quasir.store import MANIFEST, Store, locked
from quasir.store.context_store import ContextStore, is_context_run

RecipeSource: TypeAlias = str | Path | Mapping[str, Any]
"""A built-in recipe's name, a YAML file, a run's folder, or a recipe as a dictionary."""


def run(
    recipe: RecipeSource,
    out: str | Path | None = None,
    draws: int | None = None,
    seed: int | None = None,
    progress: bool | Reporter = True,
    *,
    context: str | None = None,
    allow_code: bool = False,
    contexts: str | Path | Sequence[Any] | None = None,
    column: str | None = None,
    budget: int | str | None = None,
) -> Run:
    """Run a recipe: fit lambda, draw, estimate the trade-off, sample, and write the report.

    If it is stopped, the same call goes on from there.

    Parameters
    ----------
    recipe : str, Path or dict
        The name of a built-in recipe, a YAML file, the folder of a run, or a recipe as a dict.
    out : str or Path, optional
        Folder of the run; by default ``runs/`` and the recipe's name.
    draws, seed : int, optional
        Instead of the recipe's.
    progress : bool or Reporter
        True writes the progress on stderr.
    context : str, optional
        Fills the one field of the recipe, such as ``{context}``, the question to paraphrase.
    allow_code : bool
        Whether the recipe's own Python features may be run.
    contexts : str, Path or sequence, optional
        A file of contexts, or a list of texts or dictionaries: the recipe refers to their fields,
        as in {question}, and is run for each (docs/howto/contexts.md); ``run[i]`` is context i.
    column : str, optional
        The one field of the contexts to take.
    budget : int or str, optional
        Draws or time ("4min") of the search for a proposal, where the recipe names none.

    Examples
    --------
    >>> import tempfile
    >>> import quasir as qr
    >>> recipe = {"base": {"table": {"a": 0.9, "b": 0.1}}, "choose": {"beta": 1}, "samples": 10}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = qr.run(recipe, out=f"{folder}/letters", draws=1000, progress=False)
    ...     len(run.samples), run.certificate.acceptance_rate.value
    (10, 1.0)
    """
    reporter = _reporter(progress)
    order = prepare(
        recipe, out, draws=draws, seed=seed, context=context, contexts=contexts, column=column
    )
    with locked(order.folder):
        active = begin(order, allow_code=allow_code, budget=budget, reporter=reporter)
        draw_all(active, reporter=reporter)
        what = "trade-off" if len(active.entries) == 1 else "trade-offs"
        reporter.say(f"estimating the {what} and writing the report")
        return finish(
            Run(
                order.folder,
                reporter=reporter,
                store=active.store,
                recipe=portable(active.recipe, order.folder),
                entries=active.entries,
            )
        )


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
                f"over: {read.over} says what a mean is over, but this run has no contexts: give "
                "them with --contexts, or leave over out."
            )
    return Order(read, recipe_dir, folder, given)


def folder_of(recipe: RecipeSource, out: str | Path | None) -> Path:
    """Return the folder of a run: `out`, the recipe if it is a run's folder, or runs/NAME."""
    folder = _folder(recipe, out)
    must_be_possible(folder)
    return folder


def _folder(recipe: RecipeSource, out: str | Path | None) -> Path:
    if out is not None:
        return named_folder(out)
    if isinstance(recipe, Mapping):
        digest = hashlib.sha256(recipes.dump(recipes.from_dict(recipe)).encode()).hexdigest()
        return Path("runs") / f"recipe-{digest[:8]}"
    path = Path(recipe)
    return path if is_file(path / "recipe.yaml") else Path("runs") / path.stem


def read_recipe(
    recipe: RecipeSource, context: str | None = None, **changes: Any
) -> tuple[Recipe, Path]:
    """Return a checked recipe with its context filled in, and the folder of its files."""
    if isinstance(recipe, Mapping):
        return recipes.from_dict(recipe, context, **changes), Path()
    source = recipes.find(recipe)
    return recipes.read(source, context, **changes), source.parent


def begin(
    order: Order,
    *,
    allow_code: bool = False,
    shards_at: str | None = None,
    budget: int | str | None = None,
    reporter: Reporter | None = None,
    engine: Engine | None = None,
) -> ActiveRun:
    """Load the models of a run, search its proposal, and fit lambda where it is not known."""
    reporter = reporter or Quiet()
    if order.contexts is None and not is_context_run(order.folder):
        for warning in unfilled(order.recipe):
            reporter.say(f"! {warning}")
    return ActiveRun.begin(
        order.recipe,
        order.recipe_dir,
        order.folder,
        contexts=order.contexts,
        allow_code=allow_code,
        reporter=reporter,
        shards_at=shards_at,
        budget=budget,
        engine=engine,
    )


def draw_all(
    active: ActiveRun,
    repair: bool = False,
    engine: Engine | None = None,
    reporter: Reporter | None = None,
) -> int:
    """Make the missing draws; return how many. Those of many contexts are made round by round."""
    reporter, store, wanted = reporter or Quiet(), active.store, active.recipe.draws
    check_or_forget(store, repair, reporter)
    before = kept_draws(store)
    if before and (store.missing(wanted) or active.entries[0].fields):
        reporter.say(f"going on from {before:,} draws")
    engine, made = engine or local_engine(active, reporter), 0
    while store.missing(wanted) or _add_round(active, reporter):
        rounds = store.manifest.rounds
        label = "drawing" if rounds is None else f"drawing, round {len(rounds)}"
        with reporter.stage(label) as report:
            made += active.draw(wanted, report, engine)
        if store.manifest.stopped is not None:
            reporter.say(f"stopped: {store.manifest.stopped}; the same command goes on")
        if store.missing(wanted):
            break
    return made


def _add_round(active: ActiveRun, reporter: Reporter) -> bool:
    """Give the contexts more draws, by what each still needs; return whether any are left."""
    store, recipe, entries = active.store, active.recipe, active.entries
    if not isinstance(store, ContextStore):
        return False
    if not store.rounds:
        store.add_round(pilot(recipe.draws, [entry.failed is None for entry in entries]))
        return True
    if sum(store.rounds[-1]) >= recipe.draws:
        return False
    request, samples = recipe.choose.asked, recipe.samples_of_each(len(entries))
    needs: list[Need | None] = [None] * len(entries)
    with reporter.stage("looking at the contexts") as report:
        for index, draws in draws_by_context(store, entries, items=False):
            needs[index] = need_of(draws, request, samples)
            report(index + 1, len(entries), index + 1)
    totals = allocated(store.rounds[-1], needs, recipe.draws)
    if totals is not None:
        store.add_round(totals)
    return totals is not None


def local_engine(active: ActiveRun, reporter: Reporter) -> Local:
    """Return this machine as an engine; for a model on a CPU, it measures how many processes."""
    tell = reporter.say
    if not active.store.manifest.models:
        return Local(tell=tell)
    import torch

    return Local(measure=not torch.cuda.is_available(), tell=tell)


def draw_more(
    folder: Path,
    wanted: int,
    context: int = 0,
    *,
    allow_code: bool = False,
    reporter: Reporter | None = None,
) -> Store:
    """Load the models of a run, and draw until a context has `wanted` draws; return its store."""
    if not (folder / "recipe.yaml").exists():
        raise StoreError(
            f"{folder} holds too few accepted draws, and no recipe to draw on with: ask for fewer "
            "samples, or for a higher acceptance rate."
        )
    reporter = reporter or Quiet()
    # Of a run over contexts, the recipe says how many draws all of them have together.
    in_all = None if is_context_run(folder) else wanted
    order = prepare(folder, folder, draws=in_all)
    active = begin(order, allow_code=allow_code, reporter=reporter)
    store, engine = active.store, local_engine(active, reporter)
    with reporter.stage("drawing on") as report:
        if isinstance(store, ContextStore):
            if store.missing():  # a stopped round comes first
                active.draw(wanted, report, engine)
            totals = list(store.rounds[-1])
            if wanted > totals[context]:
                totals[context] = wanted
                store.add_round(totals)
        active.draw(wanted, report, engine)
    return store


def finish(made: Run) -> Run:
    """Write the results of a run: trade-off, certificate, samples, figures and page."""
    for shortfall in made.outcome.shortfalls:
        made.reporter.say(f"! {shortfall}")
    write_outputs(made)
    return made


def _reporter(progress: bool | Reporter) -> Reporter:
    if isinstance(progress, bool):
        return Lines() if progress else Quiet()
    if not callable(getattr(progress, "stage", None)):
        raise InputError(
            f"progress is a {type(progress).__name__}, but must be True, False or a Reporter with "
            "say(message) and stage(label)."
        )
    return progress
