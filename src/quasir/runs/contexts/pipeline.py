"""From a recipe and contexts to a finished run: fit, draw round by round, and write the results."""

from __future__ import annotations

from pathlib import Path

from quasir.core.progress import Quiet, Reporter
from quasir.engines import Engine
from quasir.runs.contexts.allocation import Need, allocated, need_of, pilot
from quasir.runs.contexts.begun import BegunContexts
from quasir.runs.contexts.drawing import draw_shards
from quasir.runs.contexts.loading import draws_by_context
from quasir.runs.contexts.on_disk import ContextRun
from quasir.runs.contexts.outputs import write_contexts_outputs
from quasir.runs.integrity import check_or_forget
from quasir.runs.shard_work import kept_draws

__all__ = ["draw_contexts", "finish_contexts"]


def draw_contexts(
    begun: BegunContexts,
    repair: bool = False,
    engine: Engine | None = None,
    reporter: Reporter | None = None,
) -> int:
    """Make the missing draws, round by round; return how many."""
    reporter, store = reporter or Quiet(), begun.store
    check_or_forget(store, repair, reporter)
    before = kept_draws(store)
    if before:
        reporter.say(f"going on from {before:,} draws")
    made = 0
    while True:
        if store.lacking():
            with reporter.stage(f"drawing, round {len(store.rounds)}") as report:
                made += draw_shards(
                    store,
                    begun.entries,
                    begun.maker,
                    progress=report,
                    engine=engine,
                    sent=begun.parts,
                )
            if store.manifest.stopped is not None:
                reporter.say(f"stopped: {store.manifest.stopped}; the same command goes on")
                return made
        totals = next_round(begun, reporter)
        if totals is None:
            return made
        store.add_round(totals)


def next_round(begun: BegunContexts, reporter: Reporter) -> list[int] | None:
    """Return the draws of each context in all after the next round; None if all are made."""
    store, recipe, entries = begun.store, begun.recipe, begun.entries
    if not store.rounds:
        return pilot(recipe.draws, [entry.failed is None for entry in entries])
    if sum(store.rounds[-1]) >= recipe.draws:
        return None
    found = draws_by_context(store, entries, items=False)
    request, samples = recipe.choose.asked, recipe.samples_of_each(len(entries))
    needs: list[Need | None] = []
    with reporter.stage("looking at the contexts") as report:
        for place in range(len(entries)):
            draws = found.get(place)
            needs.append(None if draws is None else need_of(draws, request, samples))
            report(place + 1, len(entries), place + 1)
    return allocated(store.rounds[-1], needs, recipe.draws)


def finish_contexts(folder: Path, reporter: Reporter | None = None) -> ContextRun:
    """Write the results of a run over contexts."""
    run = ContextRun(folder)
    whole = run.certificate
    if whole.unserved:
        (reporter or Quiet()).say(
            f"! {len(whole.unserved):,} of {whole.contexts:,} contexts are not served; "
            f"{folder / 'contexts.csv'} says why"
        )
    write_contexts_outputs(run)
    return run
