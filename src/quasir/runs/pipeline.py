"""From a recipe to a finished run: fit, draw, estimate, sample, and write the results."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeAlias

from quasir import recipes
from quasir.core.files import is_file, named_folder
from quasir.core.progress import Lines, Quiet, Reporter
from quasir.engines import Engine, Local
from quasir.errors import InputError, StoreError
from quasir.recipes import Recipe
from quasir.recipes.placeholders import Context, check_filled
from quasir.runs.begun import ActiveRun
from quasir.runs.contexts.begun import BegunContexts
from quasir.runs.contexts.given import contexts_of
from quasir.runs.contexts.on_disk import ContextRun
from quasir.runs.contexts.pipeline import draw_contexts, finish_contexts
from quasir.runs.draw_shards import draw_into
from quasir.runs.folders import must_be_possible
from quasir.runs.integrity import check_or_forget
from quasir.runs.on_disk import Run
from quasir.runs.opening import is_context_run
from quasir.runs.outcome import unfilled
from quasir.runs.outputs import write_outputs
from quasir.runs.shard_work import kept_draws
from quasir.store import MANIFEST, Store, locked

__all__ = [
    "begin",
    "begin_contexts",
    "draw_all",
    "draw_more",
    "finish",
    "folder_of",
    "local_engine",
    "read_recipe",
    "run",
]

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
) -> Run | ContextRun:
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
        as in {question}, and is run for each (docs/contexts.md). The result is a `ContextRun`.
    column : str, optional
        The one field of the contexts to take.

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
    folder = folder_of(recipe, out)
    if context is not None and (contexts is not None or is_context_run(folder)):
        raise InputError("a run has one context or many: give --context or --contexts, not both.")
    read, _ = read_recipe(recipe, context, draws=draws, seed=seed)
    given = contexts_of(read, folder, contexts, column)
    if given is None and not is_context_run(folder):
        check_filled(read)  # a wrong recipe leaves no folder behind
    with locked(folder):
        if given is not None or is_context_run(folder):
            over = begin_contexts(
                recipe,
                given,
                folder,
                draws=draws,
                seed=seed,
                allow_code=allow_code,
                reporter=reporter,
            )
            draw_contexts(over, engine=local_engine(over, reporter=reporter), reporter=reporter)
            reporter.say("estimating the trade-offs and writing the report")
            return finish_contexts(folder, reporter)
        begun = begin(
            recipe,
            folder,
            context=context,
            draws=draws,
            seed=seed,
            allow_code=allow_code,
            reporter=reporter,
        )
        draw_all(begun, reporter=reporter)
        reporter.say("estimating the trade-off and writing the report")
        return finish(folder, reporter)


def begin_contexts(
    recipe: RecipeSource,
    contexts: list[Context] | None,
    folder: Path,
    *,
    draws: int | None = None,
    seed: int | None = None,
    allow_code: bool = False,
    shards_at: str | None = None,
    reporter: Reporter | None = None,
) -> BegunContexts:
    """Read a recipe, load its models, and fit lambda where it is not known."""
    read, beside = read_recipe(recipe, draws=draws, seed=seed)
    begun = BegunContexts.begin(
        read,
        contexts,
        beside,
        folder,
        allow_code=allow_code,
        reporter=reporter,
        shards_at=shards_at,
    )
    begun.keep_recipe()
    return begun


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
    recipe: RecipeSource,
    folder: Path,
    *,
    context: str | None = None,
    draws: int | None = None,
    seed: int | None = None,
    allow_code: bool = False,
    shards_at: str | None = None,
    reporter: Reporter | None = None,
) -> ActiveRun:
    """Read a recipe, load its models, and fit lambda where it is not known."""
    reporter = reporter or Quiet()
    read, beside = read_recipe(recipe, context, draws=draws, seed=seed)
    if read.over is not None:
        raise InputError(
            f"over: {read.over} says what a mean is over, but this run has no contexts: give them "
            "with --contexts, or leave over out."
        )
    for warning in unfilled(read):
        reporter.say(f"! {warning}")
    if read.unfitted and not (folder / MANIFEST).exists():
        names = ", ".join(read.unfitted)
        reporter.say(f"fitting lambda for {names} on {read.fit:,} draws of the base")
    with reporter.stage("fitting") as report:
        begun = ActiveRun.begin(
            read, beside, folder, allow_code=allow_code, progress=report, shards_at=shards_at
        )
    begun.keep_recipe()
    return begun


def draw_all(
    begun: ActiveRun,
    repair: bool = False,
    engine: Engine | None = None,
    reporter: Reporter | None = None,
) -> int:
    """Make the missing draws; return how many."""
    reporter, store = reporter or Quiet(), begun.store
    check_or_forget(store, repair, reporter)
    before, wanted = kept_draws(store), begun.recipe.draws
    if before and store.missing(wanted):
        reporter.say(f"going on from {before:,} draws")
    with reporter.stage("drawing") as report:
        drawn = draw_into(
            store,
            begun.target,
            begun.proposal,
            wanted,
            progress=report,
            engine=engine or local_engine(begun, reporter=reporter),
            parts=begun.parts,
        )
    if store.manifest.stopped is not None:
        reporter.say(f"stopped: {store.manifest.stopped}; the same command goes on")
    return drawn


def local_engine(
    begun: ActiveRun | BegunContexts, processes: int | None = None, reporter: Reporter | None = None
) -> Local:
    """Return this machine as an engine; for a model on a CPU, it measures how many processes."""
    tell = (reporter or Quiet()).say
    if processes is not None or not begun.store.manifest.models:
        return Local(processes, tell=tell)
    import torch

    return Local(measure=not torch.cuda.is_available(), tell=tell)


def draw_more(
    folder: Path, wanted: int, allow_code: bool = False, reporter: Reporter | None = None
) -> Store:
    """Load the models of a run, and draw until it has `wanted` draws; return its store."""
    if not (folder / "recipe.yaml").exists():
        raise StoreError(
            f"{folder} holds too few accepted draws, and no recipe to draw on with: ask for fewer "
            "samples, or for a higher acceptance rate."
        )
    reporter = reporter or Quiet()
    begun = begin(folder, folder, draws=wanted, allow_code=allow_code, reporter=reporter)
    stage: AbstractContextManager[Any] = reporter.stage("drawing on")
    with stage as report:
        draw_into(begun.store, begun.target, begun.proposal, wanted, progress=report)
    return begun.store


def finish(folder: Path, reporter: Reporter | None = None) -> Run:
    """Write the results of a run: trade-off, certificate, samples, figures and page."""
    made = Run(folder)
    outcome = made.outcome
    for shortfall in outcome.shortfalls:
        (reporter or Quiet()).say(f"! {shortfall}")
    write_outputs(folder, made.recipe, made.store, outcome)
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
