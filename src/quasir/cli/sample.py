"""`quasir sample`: samples from a run, as JSON lines."""

from __future__ import annotations

import json as jsonlib
import sys
from typing import Annotated

import typer

from quasir.certificates.certificate import Certificate
from quasir.certificates.curve import Curve, is_large, tradeoff
from quasir.cli.bar import Bars, say
from quasir.cli.contexts import refuse_context, sample_contexts
from quasir.cli.options import (
    MOST_DRAWS,
    MOST_SAMPLES,
    AllowCode,
    ContextNumber,
    Json,
    RunFolder,
    Seed,
    Stream,
    asked_of,
    streamed,
    with_choice,
)
from quasir.draws.draws import Draws
from quasir.recipes.schema import ALL_SAMPLES
from quasir.runs import sample_run, sample_stored
from quasir.runs.begun import check_seed
from quasir.runs.opening import is_context_run
from quasir.runs.outcome import choose_beta
from quasir.runs.outputs import lines_of
from quasir.runs.pipeline import draw_more
from quasir.runs.sampling import warnings_of
from quasir.store import Store, locked

__all__ = ["sample"]


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
    seed: Seed = None,
) -> None:
    """Print samples of a run, as JSON lines.

    Each line has text, log p_beta and features. If the store holds too few accepted draws, the
    command draws more. Without a request, beta is chosen as the recipe says; if that request cannot
    be met, it is the closest beta, and a warning says so. Of a run over contexts, -n is for each,
    by default as many as the recipe says; --context takes one.

    Example: quasir sample runs/scientists -n 1000 --tvd 0.05 > samples.jsonl
    """
    if is_context_run(run):
        sample_contexts(run, n, asked, context, max_draws, json=json, code=allow_code, seed=seed)
        return
    refuse_context(run, context)
    n = ALL_SAMPLES if n is None else n
    store = Store.open(run)
    check_seed(store, seed)
    request, by_recipe = asked_of(run, asked)

    def choose(curve: Curve) -> tuple[Certificate, str | None]:
        # Like `quasir run`: the closest beta, if the recipe's request cannot be met.
        return choose_beta(curve, request) if by_recipe else (curve.at(**request), None)

    def more(wanted: int) -> Store:
        # Only drawing needs the lock: a run that cannot be written can be sampled from.
        with locked(run):
            return draw_more(run, wanted, allow_code=allow_code, reporter=Bars())

    if stream or is_large(store):
        certificate, why = choose(streamed(store, True))
        sampled = sample_stored(store, certificate, n, more=more, max_proposals=max_draws)
    else:
        draws = Draws.load(store)
        certificate, why = choose(tradeoff(draws))
        sampled = sample_run(
            draws,
            certificate,
            n,
            more=lambda wanted: Draws.load(more(wanted)),
            max_proposals=max_draws,
        )
    if why is not None:
        sampled = sampled.with_warnings(why)
    warnings = [*sampled.certificate.warnings, *warnings_of(sampled.checks)]
    if json:
        document = {
            "certificate": sampled.certificate.to_dict() | {"warnings": warnings},
            "checks": [check.to_dict() for check in sampled.checks],
            "samples": list(lines_of(sampled)),
        }
        print(jsonlib.dumps(document, ensure_ascii=False))
    else:
        for line in lines_of(sampled):
            sys.stdout.write(jsonlib.dumps(line, ensure_ascii=False) + "\n")
    say(f"{sampled.certificate}\n{sampled}")
