"""`quasir tradeoff`: the table and the figure, from stored draws."""

from __future__ import annotations

import json as jsonlib
import math

from quasir.certificates.curve import Curve
from quasir.cli.bar import say
from quasir.cli.contexts import one_of, refuse_context, show_contexts
from quasir.cli.options import ContextNumber, Json, RunFolder, Seed, Stream, streamed
from quasir.errors import StoreError
from quasir.runs.begun import check_seed
from quasir.runs.opening import is_context_run
from quasir.runs.outputs import write_figure, write_tradeoff
from quasir.store import Store

__all__ = ["tradeoff"]


def tradeoff(
    run: RunFolder,
    context: ContextNumber = None,
    stream: Stream = False,
    json: Json = False,
    seed: Seed = None,
) -> None:
    """Print the trade-off of a run.

    Uses the stored draws; no model is loaded. Writes tradeoff.csv and figures/tradeoff.png into the
    run and, where the draws are streamed, a summary beside each shard. A run that cannot be written
    is shown all the same. Of a run over contexts, it prints the trade-off of one context, or what
    holds over all of them, and writes nothing.

    Example: quasir tradeoff runs/scientists
    """
    if is_context_run(run):
        if context is None:
            show_contexts(run, json, seed)
        else:
            curve = one_of(run, context, seed).curve
            print(jsonlib.dumps(as_json(curve)) if json else curve)
        return
    refuse_context(run, context)
    store = Store.open(run)
    check_seed(store, seed)
    curve = streamed(store, stream)
    print(jsonlib.dumps(as_json(curve)) if json else curve)
    try:
        write_tradeoff(run, curve)
        say(f"written: {run / 'tradeoff.csv'} and {write_figure(run, curve)}")
    except StoreError as error:
        say(f"! {error}")


def as_json(curve: Curve) -> dict[str, object]:
    """Return a curve as a JSON-ready dictionary; a number that is not finite is None."""
    return {
        "n": curve.n,
        "n_possible": curve.n_possible,
        "ess": curve.ess,
        "streamed": curve.bin_width > 0,
        "warnings": curve.warnings,
        "proposal": curve.proposal.to_dict(),
        "projection": curve.projection.to_dict(),
        "columns": {
            name: [x if math.isfinite(x) else None for x in column.tolist()]
            for name, column in curve.columns().items()
        },
    }
