"""`quasir sample`: samples from a run, as JSON lines."""

from __future__ import annotations

import json as jsonlib
import sys
from typing import Annotated

import typer

from quasir.cli.bar import Bars, say
from quasir.cli.options import (
    MOST_DRAWS,
    MOST_SAMPLES,
    AllowCode,
    ContextNumber,
    Json,
    RunFolder,
    Stream,
    asked_of,
    opened,
    with_choice,
)
from quasir.runs.outputs import describe_samples, samples_json
from quasir.runs.pipeline import draw_more
from quasir.runs.sampling import Source
from quasir.runs.stored_run import Run, sample_context
from quasir.store import locked


@with_choice
def sample(
    run: RunFolder,
    asked: dict[str, float | None],
    n: Annotated[
        int | None,
        typer.Option(
            "-n", min=1, max=MOST_SAMPLES, help="How many samples, of each context; default: 1000."
        ),
    ] = None,
    max_draws: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_DRAWS,
            help="Draws in all, at most; fails if more draws would be needed.",
        ),
    ] = None,
    context: ContextNumber = None,
    stream: Stream = False,
    allow_code: AllowCode = False,
    json: Json = False,
) -> None:
    """Print samples of a run, as JSON lines.

    Each line has text, log p_beta and features. If the store holds too few accepted draws, the
    command draws more. Without a request, beta is chosen as the recipe says; if that request cannot
    be met, it is the closest beta, and a warning says so. Of a run over contexts, -n is for each,
    by default as many as the recipe says; --context takes one.

    Example: quasir sample runs/scientists -n 1000 --tvd 0.05 > samples.jsonl
    """
    made = opened(run, context, stream)
    request, by_recipe = asked_of(made, asked)
    n = n or made.samples_of_each
    results = []
    for one in made.contexts_with_draws(context):

        def more(wanted: int, index: int = one.index) -> Source:
            # Only drawing needs the lock: a run that cannot be written can be sampled from.
            with locked(run):
                draw_more(run, wanted, index, allow_code=allow_code, reporter=Bars())
            return Run(run, stream=made.stream)[index].source

        results.append(sample_context(one, n, request, more, max_draws, closest=by_recipe))
        if results[-1].unserved is not None:
            say(f"! context {one.index} is not served: {results[-1].unserved}")
    content = samples_json(results)
    if json:
        print(jsonlib.dumps(content, ensure_ascii=False))
    else:
        for line in content["samples"]:
            sys.stdout.write(jsonlib.dumps(line, ensure_ascii=False) + "\n")
    say(describe_samples(results))
