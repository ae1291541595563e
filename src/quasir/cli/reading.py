"""Commands on the draws of a run: `quasir tradeoff`, `sample`, `plan` and `report`."""

from __future__ import annotations

import json as jsonlib
import math
import sys
from typing import Annotated

from typer import Option

from quasir.cli.bar import Bars, say
from quasir.cli.options import (
    MOST_DRAWS,
    MOST_SAMPLES,
    AllowCode,
    ContextNumber,
    Json,
    RunFolder,
    Stream,
    above_0,
    asked_of,
    opened,
    with_choice,
)
from quasir.errors import QuasirError, StoreError
from quasir.runs.outputs import sample_lines, write_context_page, write_figures, write_tradeoff
from quasir.runs.pipeline import draw_more, finish
from quasir.runs.plan import SHARE, pilot_draws, plan_run
from quasir.runs.sampling import Source
from quasir.runs.stored_run import Run, sample_context
from quasir.store import locked

SHOWN = 10
"""Contexts of a plan that are printed."""


def tradeoff(
    run: RunFolder, context: ContextNumber = None, stream: Stream = False, json: Json = False
) -> None:
    """Print the trade-off of a run.

    Uses the stored draws; no model is loaded. Writes tradeoff.csv and figures/tradeoff.png into the
    run and, where the draws are streamed, a summary beside each shard. A run that cannot be written
    is shown all the same. Of a run over contexts, it prints the trade-off of one context, or what
    holds over all of them, and writes nothing.

    Example: quasir tradeoff runs/scientists
    """
    made = opened(run, context, stream)
    if context is None and made.over_contexts:
        whole = made.certificate
        every = [result.to_dict() for result in made.outcome.results]
        print(jsonlib.dumps({"whole": whole.to_dict(), "contexts": every}) if json else whole)
        return
    curve = made[context or 0].curve
    told = {
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
    print(jsonlib.dumps(told) if json else curve)
    if made.over_contexts:
        return
    try:
        write_tradeoff(run, curve)
        figure = write_figures(run, curve, each=False)
        say(f"written: {run / 'tradeoff.csv'} and {figure}")
    except StoreError as error:
        say(f"! {error}")


def report(run: RunFolder, context: ContextNumber = None, json: Json = False) -> None:
    """Write the report of a run again.

    Uses the stored draws; no model is loaded. With --context, it writes the page of one context.

    Example: quasir report runs/scientists
    """
    made = opened(run, context)
    made.store.numbers()  # without draws there is nothing to report, and nothing to lock
    with locked(run):
        path = finish(made).report if context is None else write_context_page(made[context])
    print(jsonlib.dumps({"report": str(path)}) if json else f"open {path} in a browser")


@with_choice
def sample(
    run: RunFolder,
    asked: dict[str, float | None],
    n: Annotated[
        int | None,
        Option(
            "-n", min=1, max=MOST_SAMPLES, help="How many samples, of each context; default: 1000."
        ),
    ] = None,
    max_draws: Annotated[
        int | None,
        Option(
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
    served = [result for result in results if result.unserved is None]
    lines = [line for result in served for line in sample_lines(result)]
    if not json:
        for line in lines:
            sys.stdout.write(jsonlib.dumps(line, ensure_ascii=False) + "\n")
    elif made.over_contexts:
        every = [result.to_dict() for result in results]
        print(jsonlib.dumps({"contexts": every, "samples": lines}, ensure_ascii=False))
    else:
        (result,) = results
        checks = () if result.sampled is None else result.sampled.checks
        told = {
            "certificate": result.to_dict()["certificate"],
            "checks": [check.to_dict() for check in checks],
            "samples": lines,
        }
        print(jsonlib.dumps(told, ensure_ascii=False))
    if len(served) == 1:
        say(f"{served[0].certificate}\n{served[0].sampled}")
    else:
        say(f"{len(lines):,} samples of {len(served):,} contexts")


@with_choice
def plan(
    run: RunFolder,
    asked: dict[str, float | None],
    se: Annotated[
        float | None, Option(help="The standard error to reach.", callback=above_0)
    ] = None,
    of: Annotated[
        str | None,
        Option(
            help="The estimate with this error: tvd, kl, a feature, ...; by default the request."
        ),
    ] = None,
    share: Annotated[
        float,
        Option(
            help="For a guarantee: the acceptance rate to reach, as a share of the estimated one.",
            callback=above_0,
        ),
    ] = SHARE,
    context: ContextNumber = None,
    json: Json = False,
) -> None:
    """Say how many draws a guarantee or a precision needs.

    It extrapolates from a pilot: a run of some 10,000 draws. With --se the plan is for a standard
    error; without, for a guarantee, as in --tvd 0.1 --confidence 0.95. Without a request, beta is
    chosen as the recipe says. Of a run over contexts, it plans for one context
    (--context), or for all together.

    Example: quasir plan runs/scientists --tvd 0.02 --se 0.005
    """
    made = opened(run, context)
    request, _ = asked_of(made, asked)
    plans, unplanned = {}, {}
    for one in made.contexts_with_draws(context, items=False):
        try:
            pilot = one.draws if made.over_contexts else pilot_draws(made.store)
            plans[one.index] = plan_run(pilot, request, se, of, share)
        except QuasirError as error:
            if len(made) == 1 or context is not None:
                raise
            unplanned[one.index] = str(error)
    if len(plans) == 1 and not unplanned:
        (only,) = plans.values()
        print(jsonlib.dumps(only.to_dict()) if json else only)
        return
    in_all = sum(one.draws.value for one in plans.values())
    if json:
        every = {index: one.to_dict() for index, one in plans.items()}
        print(jsonlib.dumps({"draws": in_all, "contexts": every, "unplanned": unplanned}))
        return
    print(f"{len(plans):,} contexts: {in_all:,.0f} draws in all; those with the most:")
    for index, each in sorted(plans.items(), key=lambda pair: -pair[1].draws.value)[:SHOWN]:
        print(f"  context {index:<9} {each.draws.value:,.0f} draws")
    for index, why in list(unplanned.items())[:SHOWN]:
        print(f"  ! context {index}: {why}")
    if len(unplanned) > SHOWN:
        print(f"  ! and {len(unplanned) - SHOWN:,} more cannot be planned for")
