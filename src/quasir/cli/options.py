"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from quasir.errors import InputError
from quasir.store import Store

__all__ = [
    "AcceptanceRate",
    "AllowCode",
    "Beta",
    "Draws",
    "Json",
    "Kl",
    "LogBeta",
    "Out",
    "RecipeName",
    "RunFolder",
    "Seed",
    "Stream",
    "Tvd",
    "TvdBound",
    "check_seed",
]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Seed = Annotated[
    int | None,
    typer.Option("--seed", min=0, help="Instead of the recipe's; a run keeps its own."),
]
Draws = Annotated[
    int | None,
    typer.Option("--draws", min=1, help="Draws in all, instead of the recipe's number."),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Folder of the run; by default runs/ and the recipe's name."),
]
AllowCode = Annotated[
    bool, typer.Option("--allow-code", help="Allow the recipe's own Python features to be run.")
]
RecipeName = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A built-in recipe, a YAML file, or a run's folder.")
]
Stream = Annotated[
    bool,
    typer.Option(
        "--stream",
        help="Read shard by shard, in little memory; done anyway from 20 million draws on.",
    ),
]
Wish = float | None
AcceptanceRate = Annotated[Wish, typer.Option(help="Share of proposals to accept.")]
Tvd = Annotated[Wish, typer.Option(help="Total variation distance, at most.")]
TvdBound = Annotated[Wish, typer.Option(help="Bound on that distance, at most.")]
Kl = Annotated[Wish, typer.Option(help="KL divergence in nats, at most.")]
Beta = Annotated[Wish, typer.Option(help="The level itself.")]
LogBeta = Annotated[Wish, typer.Option(help="Its logarithm.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]


def check_seed(store: Store, seed: int | None) -> None:
    """Refuse a seed that is not the run's: its draws are made."""
    if seed is not None and seed != store.seed:
        raise InputError(
            f"{store.folder} was drawn with seed {store.seed}, not {seed}: its draws are made. "
            "Begin another run for another seed."
        )
