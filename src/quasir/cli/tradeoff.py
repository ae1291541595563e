"""`quasir tradeoff`: the table and the figure, from stored draws."""

from __future__ import annotations

import json as jsonlib

from quasir.cli.bar import say
from quasir.cli.options import ContextNumber, Json, RunFolder, Stream, opened
from quasir.errors import StoreError
from quasir.runs.outputs import describe_tradeoff, write_curve


def tradeoff(
    run: RunFolder,
    context: ContextNumber = None,
    stream: Stream = False,
    json: Json = False,
) -> None:
    """Print the trade-off of a run.

    Uses the stored draws; no model is loaded. Writes tradeoff.csv and figures/tradeoff.png into the
    run and, where the draws are streamed, a summary beside each shard. A run that cannot be written
    is shown all the same. Of a run over contexts, it prints the trade-off of one context, or what
    holds over all of them, and writes nothing.

    Example: quasir tradeoff runs/scientists
    """
    made = opened(run, context, stream)
    shown, content = describe_tradeoff(made, context)
    print(jsonlib.dumps(content) if json else shown)
    try:
        if written := write_curve(made):
            say(f"written: {' and '.join(map(str, written))}")
    except StoreError as error:
        say(f"! {error}")
