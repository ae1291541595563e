"""`quasir run`: from a constraint to certified samples and a report."""

from __future__ import annotations

from quasir.cli.bar import Bars
from quasir.cli.options import (
    AllowCode,
    Column,
    Context,
    Contexts,
    Draws,
    Json,
    Out,
    RecipeName,
    Seed,
)
from quasir.runs import pipeline
from quasir.runs.outputs import describe_outputs


def run(
    recipe: RecipeName,
    draws: Draws = None,
    out: Out = None,
    context: Context = None,
    contexts: Contexts = None,
    column: Column = None,
    allow_code: AllowCode = False,
    json: Json = False,
    seed: Seed = None,
) -> None:
    """Run a recipe: draws, trade-off, samples, report.

    The report opens in a browser. If the run is stopped, the same command goes on from there. With
    --contexts, the recipe refers to fields of the contexts, as in {question}, and --draws is for
    all of them together.

    Example: quasir run scientists --out runs/scientists
    """
    made = pipeline.run(
        recipe,
        out,
        draws=draws,
        seed=seed,
        progress=Bars(),
        context=context,
        allow_code=allow_code,
        contexts=contexts,
        column=column,
    )
    if json:
        print((made.folder / "certificate.json").read_text(), end="")
    else:
        print(describe_outputs(made))
