"""`quasir sample`: samples from a run, as JSON lines."""

from __future__ import annotations

import json as jsonlib
import sys
from functools import partial
from typing import Annotated

import typer

from quasir.certificates.tradeoff import is_large, tradeoff
from quasir.cli.bar import Bars, say
from quasir.cli.checks_table import show_checks
from quasir.cli.options import (
    AcceptanceRate,
    AllowCode,
    Beta,
    Json,
    Kl,
    LogBeta,
    RunFolder,
    Seed,
    Stream,
    Tvd,
    TvdBound,
)
from quasir.cli.shared import existing, streamed, wish_of
from quasir.draws.draws import Draws
from quasir.runs import sample_run, sample_stored
from quasir.runs.begun import check_seed
from quasir.runs.outputs import lines_of
from quasir.runs.pipeline import draw_more
from quasir.runs.sampling import doubts_of
from quasir.store import Store, locked

__all__ = ["sample"]


def sample(
    run: RunFolder,
    n: Annotated[int, typer.Option("-n", min=1, help="How many samples.")] = 1000,
    acceptance_rate: AcceptanceRate = None,
    tvd: Tvd = None,
    tvd_bound: TvdBound = None,
    kl: Kl = None,
    beta: Beta = None,
    log_beta: LogBeta = None,
    max_draws: Annotated[
        int | None,
        typer.Option(min=1, help="Draws in all, at most; fails if more draws would be needed."),
    ] = None,
    stream: Stream = False,
    allow_code: AllowCode = False,
    json: Json = False,
    seed: Seed = None,
) -> None:
    """Print samples of a run, as JSON lines.

    Each line has text, log p_beta and features. If the store holds too few accepted draws, the
    command draws more. Without a wish, beta is chosen as the recipe says.

    Example: quasir sample runs/scientists -n 1000 --tvd 0.05 > samples.jsonl
    """
    with locked(existing(run)):
        store = Store.open(run)
        check_seed(store, seed)
        wish = wish_of(
            run,
            acceptance_rate=acceptance_rate,
            tvd=tvd,
            tvd_bound=tvd_bound,
            kl=kl,
            beta=beta,
            log_beta=log_beta,
        )
        more = partial(draw_more, run, allow_code=allow_code, reporter=Bars())
        if stream or is_large(store):
            certificate = streamed(store, True).at(**wish)
            sampled = sample_stored(store, certificate, n, more=more, max_proposals=max_draws)
        else:
            draws = Draws.load(store)
            certificate = tradeoff(draws).at(**wish)
            sampled = sample_run(
                draws,
                certificate,
                n,
                more=lambda wanted: Draws.load(more(wanted)),
                max_proposals=max_draws,
            )
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
