"""`quasir draw`: draw and score, into the store."""

from __future__ import annotations

import json as jsonlib
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from quasir import recipes
from quasir.cli.bar import Bar, say
from quasir.cli.options import AllowCode, Draws, Json, Out, RecipeName, Seed
from quasir.engines import Engine, Local, Ray
from quasir.errors import InputError
from quasir.runs import Run, draw_into
from quasir.store import MANIFEST, Store, locked

__all__ = ["begin", "draw", "draw_all"]


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
        run = begin(recipe, folder, draws, seed, allow_code, shards_at)
        if engine is EngineName.ray:
            made: Engine = Ray(address, workers, gpus_per_worker=gpus_per_worker, tell=say)
        else:
            made = local_engine(run, workers)
        drawn = draw_all(run, repair, made)
        content = jsonlib.loads((folder / MANIFEST).read_text())["content"]
    if json:
        told = {"run": str(folder), "drawn": drawn, "draws": len(run.store), "content": content}
        print(jsonlib.dumps(told))
    else:
        print(f"{len(run.store):,} draws in {folder} ({drawn:,} of them drawn now)")


def folder_of(recipe: str, out: Path | None) -> Path:
    """Return the folder of a run: as given, the run itself, or runs/NAME."""
    if out is not None:
        return out
    path = Path(recipe)
    return path if (path / "recipe.yaml").is_file() else Path("runs") / path.stem


def local_engine(run: Run, processes: int | None = None) -> Local:
    """Return this machine: for a language model on a CPU, as many processes as are found best."""
    models = bool(run.store.manifest.models)
    if processes is not None or not models:
        return Local(processes, tell=say)
    import torch

    return Local(measure=not torch.cuda.is_available(), tell=say)


def begin(
    recipe: str,
    folder: Path,
    draws: int | None,
    seed: int | None,
    allow_code: bool,
    shards_at: str | None = None,
) -> Run:
    """Read a recipe, load what it names, fit lambda where it is not known."""
    source = recipes.find(recipe)
    read = recipes.read(source, draws=draws, seed=seed)
    if read.unfitted and not (folder / MANIFEST).exists():
        say(f"fitting lambda for {', '.join(read.unfitted)} on {read.fit:,} draws of the base")
    with Bar("fitting") as bar:
        run = Run.begin(read, source, folder, allow_code, bar, shards_at)
    run.keep_recipe()
    return run


def draw_all(run: Run, repair: bool = False, engine: Engine | None = None) -> int:
    """Draw what is missing; return how many draws that was."""
    store: Store = run.store
    if repair:
        damaged = store.damaged()
        if damaged:
            say(f"drawing {len(damaged)} damaged shards again")
            store.forget(damaged)
    else:
        store.check()
    before = len(store)
    if before and store.missing(run.recipe.draws):
        say(f"going on from {before:,} draws")
    engine = engine or local_engine(run)
    with Bar("drawing") as bar:
        drawn = draw_into(store, run.target, run.proposal, run.recipe.draws, bar, engine, run.parts)
    if store.manifest.stopped is not None:
        say(f"stopped: {store.manifest.stopped}; the same command goes on")
    return drawn
