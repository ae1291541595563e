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
from quasir.runs import ContextRun, Run, pipeline
from quasir.runs.integrity import command

__all__ = ["run"]


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
    elif isinstance(made, ContextRun):
        print(f"{made.certificate}\n\nopen {made.report} in a browser")
        print(f"samples: {made.folder / 'samples.jsonl'}; contexts: {made.folder / 'contexts.csv'}")
    else:
        sampled = made.outcome.sampled
        print(f"{made.certificate}\n{sampled}\n\n{_listing(made)}")


def _listing(made: Run) -> str:
    """Return where the results are."""
    more = command("sample", made.folder, "-n", 1000, recipe=made.recipe)
    return (
        f"open {made.folder / 'report.html'} in a browser\n"
        f"samples: {made.folder / 'samples.jsonl'}; more: {more}"
    )
