"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from quasir.cli.numbers import MOST_DRAWS, finite, nameable, seed_in_range

__all__ = [
    "AcceptanceRate",
    "AllowCode",
    "Beta",
    "Column",
    "Confidence",
    "Context",
    "ContextNumber",
    "Contexts",
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
]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]

Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="INTEGER",
        help="Replaces the recipe's seed; a run keeps its own.",
        callback=seed_in_range,
    ),
]
Draws = Annotated[
    int | None,
    typer.Option(
        "--draws", min=1, max=MOST_DRAWS, help="Draws in all; replaces the recipe's number."
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        "--context",
        help="Fills the one field of the recipe, {context}, such as a question to paraphrase.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Folder of the run; by default runs/ and the recipe's name."),
]
AllowCode = Annotated[
    bool, typer.Option("--allow-code", help="Allow the recipe to run its own Python features.")
]
RecipeName = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE",
        help="A built-in recipe, a YAML file, or a run's folder.",
        callback=nameable,
    ),
]
Stream = Annotated[
    bool,
    typer.Option(
        "--stream",
        help="Read shard by shard, to save memory; automatic from 20 million draws.",
    ),
]
Wish = float | None
AcceptanceRate = Annotated[
    Wish, typer.Option(help="Share of proposals to accept.", callback=finite)
]
Tvd = Annotated[Wish, typer.Option(help="Total variation distance, at most.", callback=finite)]
TvdBound = Annotated[
    Wish, typer.Option(help="Bound on the total variation distance, at most.", callback=finite)
]
Kl = Annotated[Wish, typer.Option(help="KL divergence in nats, at most.", callback=finite)]
Beta = Annotated[Wish, typer.Option(help="The level beta itself.", callback=finite)]
LogBeta = Annotated[Wish, typer.Option(help="The logarithm of beta.", callback=finite)]
Confidence = Annotated[
    Wish,
    typer.Option(
        help="With --tvd or --kl: choose the beta at which this is promised, e.g. 0.95.",
        callback=finite,
    ),
]
Contexts = Annotated[
    Path | None,
    typer.Option(
        "--contexts",
        help="A file of contexts (.jsonl, .txt, .csv, .parquet): the recipe is run for each.",
        callback=nameable,
    ),
]
Column = Annotated[
    str | None, typer.Option("--column", help="The one field of the contexts to take.")
]
ContextNumber = Annotated[
    int | None,
    typer.Option(
        "--context", min=0, help="Number of a context, in a run over contexts; by default all."
    ),
]
RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="The folder of a run.", callback=nameable)
]
