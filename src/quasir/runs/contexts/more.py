"""More draws of one context of a run."""

from __future__ import annotations

from pathlib import Path

from quasir.core.progress import Quiet, Reporter
from quasir.recipes import read_run
from quasir.runs.contexts.begun import BegunContexts
from quasir.runs.contexts.drawing import draw_shards

__all__ = ["draw_more_of"]


def draw_more_of(
    folder: Path,
    place: int,
    wanted: int,
    *,
    allow_code: bool = False,
    reporter: Reporter | None = None,
) -> None:
    """Load the models of a run, and draw until a context has `wanted` draws."""
    reporter = reporter or Quiet()
    begun = BegunContexts.begin(
        read_run(folder), None, folder, folder, allow_code=allow_code, reporter=reporter
    )
    store = begun.store
    with reporter.stage("drawing on") as report:
        if store.lacking():  # a stopped round comes first
            draw_shards(store, begun.entries, begun.maker, progress=report)
        totals = list(store.rounds[-1])
        if wanted > totals[place]:
            totals[place] = wanted
            store.add_round(totals)
            draw_shards(store, begun.entries, begun.maker, progress=report)
