"""`quasir watch`: show a run while it draws."""

from __future__ import annotations

import json as jsonlib
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from quasir import recipes
from quasir.certificates.table import curve_text
from quasir.cli.bar import clock, say
from quasir.cli.options import ContextNumber, Json, RunFolder, finite, opened
from quasir.runs.integrity import command
from quasir.runs.watch import Glance, Watcher, parse_stop_rule
from quasir.store.control import ask_to_stop, holder_ended


def watch(
    run: RunFolder,
    until: Annotated[
        list[str] | None,
        typer.Option(help="Stop the run at a guarantee, tvd<=0.1, or a precision, tvd_se=0.005."),
    ] = None,
    every: Annotated[
        float, typer.Option(min=0.1, max=86_400, help="Seconds between two looks.", callback=finite)
    ] = 5.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, and stop.")] = False,
    context: ContextNumber = None,
    json: Json = False,
) -> None:
    """Show a run while it draws, and its trade-off so far.

    This command only reads; another process draws. With --until it asks that process to stop when a
    distance is guaranteed at the recipe's beta (tvd<=0.1, kl<=0.05), or when an estimate there is
    precise enough (tvd_se=0.005, moment:female_se=0.01, ess=1000); if there are several requests,
    all must be met. A guarantee is right however often you look. Of a run over contexts it shows
    one (--context) or all; tvd<=0.1 is then the mean TVD. With --json, it prints a line for each
    look.

    Example: quasir watch runs/scientists --until "tvd<=0.12"
    """
    opened(run, context)
    rules = [parse_stop_rule(text) for text in until or []]
    watcher = Watcher(run, context, rules)
    console = Console()
    live = Live(console=console, auto_refresh=False) if console.is_terminal and not json else None
    shown = -1
    try:
        if live is not None:
            live.start()
        while True:
            # Ask first whether the run has ended, so that its last shard is not missed.
            ended = holder_ended(run)
            glance = watcher.look()
            why = glance.reached(rules)
            if live is not None:
                live.update(Text(as_text(glance)), refresh=True)
            elif glance.draws + glance.unfinished != shown:
                shown = glance.draws + glance.unfinished
                print(jsonlib.dumps(glance.to_dict()) if json else as_text(glance), flush=True)
            if why is not None and not (ended or glance.complete or glance.stopped):
                ask_to_stop(run, why)
            if once or why is not None or glance.complete or glance.stopped or ended:
                break
            time.sleep(every)
    finally:
        if live is not None:
            live.stop()
    say_end(run, glance, why, ended=ended, once=once)


def say_end(run: Path, glance: Glance, why: str | None, *, ended: bool, once: bool) -> None:
    """Say why the watching ends."""
    if why is not None:
        over = ended or glance.complete or glance.stopped
        say(f"as requested: {why}" + ("" if over else "; the run ends after the present shard"))
    elif glance.complete:
        say("all draws are there")
    elif glance.stopped:
        say(f"the run was stopped: {glance.stopped}")
    elif ended and not once:
        say(f"the run has stopped; resume with `{going_on(run)}`")


def going_on(run: Path) -> str:
    """Return the command that goes on with a run."""
    there = (run / "recipe.yaml").is_file()
    return command("draw", run, recipe=recipes.read_run(run) if there else None)


def as_text(glance: Glance) -> str:
    """Return a look as text, in 80 columns."""
    of = "" if glance.wanted is None else f" of {glance.wanted:,}"
    line = f"{glance.folder}: {glance.draws:,}{of} draws"
    if glance.unfinished:
        line += f" and {glance.unfinished:,} in unfinished shards"
    if glance.per_second:
        line += f", {glance.per_second:,.0f}/s by {glance.workers or 1} workers"
        if (glance.machines or 1) > 1:
            line += f" on {glance.machines} machines"
    if glance.seconds_left is not None and not glance.complete:
        line += f", {clock(glance.seconds_left)} left"
    parts = [line]
    if (over := glance.progress) is not None:
        begun, contexts = over["contexts_begun"], over["contexts"]
        parts.append(f"round {over['rounds']}; {begun:,} of {contexts:,} contexts have draws")
    if glance.whole is not None:
        parts.append(str(glance.whole))
    if glance.curve is not None:
        parts.append(curve_text(glance.curve, rows=5))
    if glance.certificate is not None:
        parts.append(str(glance.certificate))
    return "\n".join(parts)
