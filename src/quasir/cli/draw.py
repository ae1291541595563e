"""`quasir draw`: draw and score, into the store."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from quasir import recipes
from quasir.cli.options import AllowCode, Draws, Json, Out, RecipeName, Seed
from quasir.cli.progress import Bar, say
from quasir.run import Run, draw_into
from quasir.store import Store, locked
from quasir.store.store import MANIFEST

__all__ = ["begin", "draw", "draw_all"]


def draw(
    recipe: RecipeName,
    draws: Draws = None,
    out: Out = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Draw damaged shards again instead of stopping.")
    ] = False,
    allow_code: AllowCode = False,
    json: Json = False,
    seed: Seed = None,
) -> None:
    """Only draw and score, into the store.

    Stopped or killed at any moment, the same command goes on where it was.

    Example: quasir draw scientists --draws 1000000 --seed 0 --out runs/scientists
    """
    folder = folder_of(recipe, out)
    with locked(folder):
        run = begin(recipe, folder, draws, seed, allow_code)
        drawn = draw_all(run, repair)
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


def begin(recipe: str, folder: Path, draws: int | None, seed: int | None, allow_code: bool) -> Run:
    """Read a recipe, load what it names, fit lambda where it is not known."""
    source = recipes.find(recipe)
    read = recipes.read(source, draws=draws, seed=seed)
    if read.unfitted and not (folder / MANIFEST).exists():
        say(f"fitting lambda for {', '.join(read.unfitted)} on {read.fit:,} draws of the base")
    if read.base.model is not None:
        from quasir.text.memory import keep_freed_memory

        keep_freed_memory()
    with Bar("fitting") as bar:
        run = Run.begin(read, source, folder, allow_code, bar)
    run.keep_recipe()
    return run


def draw_all(run: Run, repair: bool = False) -> int:
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
    with Bar("drawing") as bar:
        return draw_into(store, run.target, run.proposal, run.recipe.draws, bar)
