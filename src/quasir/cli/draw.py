"""`quasir draw`: draw and score, into the store."""

from __future__ import annotations

import json as jsonlib
from enum import StrEnum
from typing import Annotated

import typer

from quasir.cli.bar import Bars, say
from quasir.cli.options import AllowCode, Draws, Json, Out, RecipeName, Seed
from quasir.engines import Engine, Ray
from quasir.errors import InputError
from quasir.runs.pipeline import begin, draw_all, folder_of, local_engine
from quasir.store import MANIFEST, locked

__all__ = ["draw"]


class EngineName(StrEnum):
    """Who draws."""

    local = "local"
    ray = "ray"


def draw(
    recipe: RecipeName,
    draws: Draws = None,
    out: Out = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Draw damaged shards again instead of stopping.")
    ] = False,
    engine: Annotated[
        EngineName, typer.Option(help="Who draws: this machine, or a Ray cluster.")
    ] = EngineName.local,
    address: Annotated[
        str | None,
        typer.Option(help="Of the cluster: auto or HOST:PORT; by default one is started here."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes, or Ray's workers; by default what is found best."),
    ] = None,
    gpus_per_worker: Annotated[float, typer.Option(min=0, help="What a worker of Ray needs.")] = 0,
    shards_at: Annotated[
        str | None,
        typer.Option(
            help="An address for the shards, such as s3://bucket/run, instead of the run."
        ),
    ] = None,
    allow_code: AllowCode = False,
    json: Json = False,
    seed: Seed = None,
) -> None:
    """Only draw and score, into the store.

    Stopped or killed at any moment, the same command goes on where it was.

    Whoever draws, the draws are the same.

    Example: quasir draw scientists --draws 1000000 --engine ray --workers 8
    """
    folder = folder_of(recipe, out)
    if engine is EngineName.local and (address is not None or gpus_per_worker):
        raise InputError("--address and --gpus-per-worker go with --engine ray.")
    with locked(folder):
        begun = begin(recipe, folder, draws, seed, allow_code, shards_at, Bars())
        if engine is EngineName.ray:
            made: Engine = Ray(address, workers, gpus_per_worker=gpus_per_worker, tell=say)
        else:
            made = local_engine(begun, workers, Bars())
        drawn = draw_all(begun, repair, made, Bars())
        content = jsonlib.loads((folder / MANIFEST).read_text())["content"]
    if json:
        told = {"run": str(folder), "drawn": drawn, "draws": len(begun.store), "content": content}
        print(jsonlib.dumps(told))
    else:
        print(f"{len(begun.store):,} draws in {folder} ({drawn:,} of them drawn now)")
