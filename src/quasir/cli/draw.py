"""`quasir draw`: draw and score items, into the store."""

from __future__ import annotations

import json as jsonlib
import sys
from contextlib import redirect_stdout
from enum import StrEnum
from typing import Annotated

from typer import Option

from quasir.cli.bar import Bars, say
from quasir.cli.options import (
    AllowCode,
    Column,
    Contexts,
    Draws,
    Json,
    Out,
    RecipeName,
    Seed,
    finite,
)
from quasir.engines import Engine, Local, Ray
from quasir.errors import InputError
from quasir.runs.active_run import begin, prepare
from quasir.runs.pipeline import draw_all
from quasir.store import MANIFEST, locked

__all__ = ["draw"]


class EngineName(StrEnum):
    local = "local"
    ray = "ray"


def draw(
    recipe: RecipeName,
    draws: Draws = None,
    out: Out = None,
    repair: Annotated[
        bool, Option("--repair", help="Draw damaged shards again instead of stopping.")
    ] = False,
    engine: Annotated[
        EngineName, Option(help="What draws: this machine, or a Ray cluster.")
    ] = EngineName.local,
    address: Annotated[
        str | None,
        Option(
            help="Address of the Ray cluster: auto or HOST:PORT; by default, one is started here."
        ),
    ] = None,
    workers: Annotated[
        int | None,
        Option(
            min=1, max=10_000, help="Processes, or workers of Ray; by default, the fastest number."
        ),
    ] = None,
    gpus_per_worker: Annotated[
        float, Option(min=0, help="GPUs for each worker of Ray.", callback=finite)
    ] = 0,
    shards_at: Annotated[
        str | None,
        Option(help="Write the shards to this address, such as s3://bucket/run, not into the run."),
    ] = None,
    contexts: Contexts = None,
    column: Column = None,
    allow_code: AllowCode = False,
    json: Json = False,
    seed: Seed = None,
) -> None:
    """Only draw and score, into the store.

    If it is stopped or killed, the same command goes on from there. The draws do not depend on
    the engine or the number of workers.

    Example: quasir draw scientists --draws 1000000 --engine ray --workers 8
    """
    if engine is EngineName.local and (address is not None or gpus_per_worker):
        raise InputError("--address and --gpus-per-worker need --engine ray.")
    order = prepare(recipe, out, contexts=contexts, column=column, draws=draws, seed=seed)
    folder = order.folder
    with locked(folder):
        made: Engine | None = None
        if engine is EngineName.ray:
            made = Ray(address, workers, gpus_per_worker=gpus_per_worker, tell=say)
        elif workers is not None:
            made = Local(workers, tell=say)
        active = begin(
            order, allow_code=allow_code, shards_at=shards_at, reporter=Bars(), engine=made
        )
        with redirect_stdout(sys.stderr):  # Ray prints there that a machine was lost
            drawn = draw_all(active, repair, made, Bars())
        content = jsonlib.loads((folder / MANIFEST).read_text())["content"]
    if json:
        counts = {"drawn": drawn, "draws": len(active.store)}
        print(jsonlib.dumps({"run": str(folder), **counts, "content": content}))
    else:
        print(f"{len(active.store):,} draws in {folder} ({drawn:,} of them drawn now)")
