"""`quasir sample`: samples from a run, as JSON lines."""

from __future__ import annotations

import json as jsonlib
import sys
from typing import Annotated

import typer

from quasir.certificates.certificate import Certificate
from quasir.certificates.curve import Curve
from quasir.certificates.tradeoff import is_large, tradeoff
from quasir.cli.bar import Bars, say
from quasir.cli.checks_table import show_checks
from quasir.cli.contexts import refuse_context, sample_contexts
from quasir.cli.numbers import MOST_DRAWS, MOST_SAMPLES
from quasir.cli.options import (
    AcceptanceRate,
    AllowCode,
    Beta,
    Confidence,
    ContextNumber,
    Json,
    Kl,
    LogBeta,
    RunFolder,
    Seed,
    Stream,
    Tvd,
    TvdBound,
)
from quasir.cli.shared import streamed, wish_of
from quasir.draws.draws import Draws
from quasir.runs import sample_run, sample_stored
from quasir.runs.begun import check_seed
from quasir.runs.opening import is_context_run
from quasir.runs.outcome import choose_beta
from quasir.runs.outputs import lines_of
from quasir.runs.pipeline import draw_more
from quasir.runs.sampling import doubts_of
from quasir.store import Store, locked

__all__ = ["sample"]


def sample(
    run: RunFolder,
    n: Annotated[int, typer.Option("-n", min=1, max=MOST_SAMPLES, help="How many samples.")] = 1000,
    acceptance_rate: AcceptanceRate = None,
    tvd: Tvd = None,
    tvd_bound: TvdBound = None,
    kl: Kl = None,
    beta: Beta = None,
    log_beta: LogBeta = None,
    confidence: Confidence = None,
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
    command draws more. Without a wish, beta is chosen as the recipe says; if that wish cannot be
    met, it is the closest beta, and a doubt says so. Of a run over contexts, -n is for one context
    (--context), or for all together in equal shares.

    Example: quasir sample runs/scientists -n 1000 --tvd 0.05 > samples.jsonl
    """
    wishes = {
        "acceptance_rate": acceptance_rate,
        "tvd": tvd,
        "tvd_bound": tvd_bound,
        "kl": kl,
        "beta": beta,
        "log_beta": log_beta,
    }
    if is_context_run(run):
        sample_contexts(
            run, n, wishes, confidence, context, max_draws, json=json, code=allow_code, seed=seed
        )
        return
    refuse_context(run, context)
    store = Store.open(run)
    check_seed(store, seed)
    wish, by_recipe = wish_of(run, confidence=confidence, **wishes)

    def choose(curve: Curve) -> tuple[Certificate, str | None]:
        # Like `quasir run`: the closest beta, if the recipe's wish cannot be met.
        return choose_beta(curve, wish) if by_recipe else (curve.at(**wish), None)

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
        sampled = sampled.with_doubts(why)
    doubts = [*sampled.certificate.doubts, *doubts_of(sampled.checks)]
    if json:
        document = {
            "certificate": sampled.certificate.to_dict() | {"doubts": doubts},
            "checks": [check.to_dict() for check in sampled.checks],
            "samples": list(lines_of(sampled)),
        }
        print(jsonlib.dumps(document, ensure_ascii=False))
    else:
        for line in lines_of(sampled):
            sys.stdout.write(jsonlib.dumps(line, ensure_ascii=False) + "\n")
    say(f"{sampled.certificate}\n{show_checks(sampled)}")
