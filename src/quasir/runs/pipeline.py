"""From a recipe to a finished run: fit, draw, estimate, sample, and write the results."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from quasir.core.progress import Lines, Quiet, Reporter
from quasir.engines import Engine, Local
from quasir.errors import InputError, StoreError
from quasir.recipes.building import portable
from quasir.runs.active_run import ActiveRun, RecipeSource, begin, prepare
from quasir.runs.contexts import Need, allocated, draws_by_context, need_of, pilot
from quasir.runs.draw_shards import kept_draws
from quasir.runs.outputs import write_outputs
from quasir.runs.stored_run import Run
from quasir.store import Store, locked
from quasir.store.store import ContextStore, is_context_run


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
    if isinstance(progress, bool):
        reporter: Reporter = Lines() if progress else Quiet()
    elif callable(getattr(progress, "stage", None)):
        reporter = progress
    else:
        raise InputError(
            f"progress is a {type(progress).__name__}, but must be True, False or a Reporter with "
            "say(message) and stage(label)."
        )
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


def draw_all(
    active: ActiveRun,
    repair: bool = False,
    engine: Engine | None = None,
    reporter: Reporter | None = None,
) -> int:
    """Make the missing draws; return how many. Those of many contexts are made round by round."""
    reporter, store, wanted = reporter or Quiet(), active.store, active.recipe.draws
    if not repair:
        store.check()
    elif damaged := store.damaged(marks=True):
        reporter.say(f"drawing {len(damaged)} damaged shards again")
        store.forget(damaged)
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
    models = bool(active.store.manifest.models)
    alone = not models or import_module("torch").cuda.is_available()
    return Local(measure=not alone, tell=reporter.say)


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
    order = prepare(folder, folder, draws=None if is_context_run(folder) else wanted)
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
