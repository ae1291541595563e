"""`quasir plan`: draws, hours and machines, from a pilot."""

from __future__ import annotations

import json as jsonlib
import math
from typing import Annotated

import typer

from quasir.cli.options import (
    ContextNumber,
    Json,
    RunFolder,
    above_0,
    asked_of,
    opened,
    with_choice,
)
from quasir.core.formatting import level_text, wrapped
from quasir.runs.plan import SHARE, Plan, Range, plan_contexts


@with_choice
def plan(
    run: RunFolder,
    asked: dict[str, float | None],
    se: Annotated[
        float | None, typer.Option(help="The standard error to reach.", callback=above_0)
    ] = None,
    of: Annotated[
        str | None,
        typer.Option(
            help="The estimate with this error: tvd, kl, a feature, ...; by default the request."
        ),
    ] = None,
    share: Annotated[
        float,
        typer.Option(
            help="For a guarantee: the acceptance rate to reach, as a share of the estimated one.",
            callback=above_0,
        ),
    ] = SHARE,
    machines: Annotated[int, typer.Option(min=1, max=10**6, help="Machines like this one.")] = 1,
    hours: Annotated[
        float, typer.Option(help="Time limit, for the number of machines.", callback=above_0)
    ] = 24,
    context: ContextNumber = None,
    json: Json = False,
) -> None:
    """Say how many draws and hours a guarantee or precision needs.

    It extrapolates from a pilot: a run of some 10,000 draws. With --se the plan is for a standard
    error; without, for a guarantee, as in --tvd 0.1 --confidence 0.95. Without a request, beta is
    chosen as the recipe says. Of a run over contexts, it plans for one context
    (--context), or for all together.

    Example: quasir plan runs/scientists --tvd 0.02 --se 0.005 --machines 4
    """
    pilot = opened(run, context)
    request, _ = asked_of(pilot, asked)
    plans = plan_contexts(pilot, context, request, se, of, share)
    made = plans.only
    if made is None:
        print(jsonlib.dumps(plans.to_dict()) if json else plans)
        return
    if json:
        content = made.to_dict() | {
            "machines": machines,
            "hours": None
            if made.seconds is None
            else made.seconds.times(1 / 3600 / machines).to_dict(),
            "machines_for": {"hours": hours, "machines": made.machines_for(hours)},
        }
        print(jsonlib.dumps(content))
    else:
        print(as_text(made, machines, hours))


def as_text(made: Plan, machines: int, hours: float) -> str:
    """Return a plan as text, in 80 columns."""
    pilot = made.pilot
    now = pilot.estimate(made.of)
    rows = [
        (
            "pilot",
            f"{pilot.n:,} draws: {made.of} {now}",
        ),
        (
            "beta",
            f"{level_text(pilot.log_beta)}, acceptance rate {pilot.acceptance_rate.value:.3g}",
        ),
        ("draws", _range(made.draws, whole=True)),
        ("samples among them", _range(made.samples, whole=True)),
    ]
    if made.per_second is not None and made.seconds is not None:
        of_workers = f"per machine, {made.workers} worker{'s' if made.workers > 1 else ''}"
        rows += [
            ("draws per second", f"{_range(made.per_second)} {of_workers}"),
            (
                "hours",
                f"{_range(made.seconds.times(1 / 3600 / machines))} on {machines} "
                f"machine{'s' if machines > 1 else ''}",
            ),
            ("machines", f"{made.machines_for(hours):,} to finish within {hours:g} hours"),
        ]
    else:
        rows.append(("hours", "unknown"))
    rows.append(("disk", _bytes(made.bytes)))
    lines = [
        f"{made.of} guaranteed at {made.share:g} of the acceptance rate that it truly costs"
        if made.se is None
        else f"{made.of} to a standard error of {made.se:g}"
    ]
    lines += [f"  {name:<19} {value}" for name, value in rows]
    for warning in made.warnings:
        lines += wrapped(f"! {warning}", "  ", "    ")
    return "\n".join(lines)


def _range(number: Range, whole: bool = False) -> str:
    if whole:
        return f"{_rounded(number.value)} [{_rounded(number.low)}, {_rounded(number.high)}]"
    return f"{number.value:.3g} [{number.low:.3g}, {number.high:.3g}]"


def _rounded(x: float) -> str:
    """Return a count with three digits; the others are not known."""
    if not math.isfinite(x):
        return "?"
    if x < 1000:
        return f"{math.ceil(x):,}"
    digits = 10 ** (math.floor(math.log10(x)) - 2)
    return f"{round(x / digits) * digits:,}"


def _bytes(size: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            return f"{size:.3g} {unit}"
        size /= 1000
    raise AssertionError
