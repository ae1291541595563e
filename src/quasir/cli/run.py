"""`quasir run`: from a wish to certified samples and a report."""

from __future__ import annotations

from pathlib import Path

from quasir.cli.bar import say
from quasir.cli.checks_table import show_checks
from quasir.cli.draw import begin, draw_all, folder_of
from quasir.cli.options import AllowCode, Draws, Json, Out, RecipeName, Seed
from quasir.cli.report import finish
from quasir.store import locked

__all__ = ["listing", "run"]


def run(
    recipe: RecipeName,
    draws: Draws = None,
    out: Out = None,
    allow_code: AllowCode = False,
    json: Json = False,
    seed: Seed = None,
) -> None:
    """Run a recipe: draws, trade-off, samples, report.

    The report opens in a browser. Stopped at any moment, the same command goes on where it was.

    Example: quasir run scientists --out runs/scientists
    """
    folder = folder_of(recipe, out)
    with locked(folder):
        begun = begin(recipe, folder, draws, seed, allow_code)
        draw_all(begun)
        say("estimating the trade-off and writing the report")
        sampled = finish(folder)
    if json:
        print((folder / "certificate.json").read_text(), end="")
    else:
        print(f"{sampled.certificate}\n{show_checks(sampled)}\n\n{listing(folder)}")


def listing(folder: Path) -> str:
    """Return what there is to look at."""
    return (
        f"open {folder / 'report.html'} in a browser\n"
        f"samples: {folder / 'samples.jsonl'}; more: quasir sample {folder} -n 1000"
    )
