"""`quasir run`: from a wish to certified samples and a report."""

from __future__ import annotations

from pathlib import Path

from quasir.cli.bar import Bars
from quasir.cli.checks_table import show_checks
from quasir.cli.options import AllowCode, Draws, Json, Out, RecipeName, Seed
from quasir.runs import pipeline

__all__ = ["run"]


def run(
    recipe: RecipeName,
    draws: Draws = None,
    out: Out = None,
    allow_code: AllowCode = False,
    json: Json = False,
    seed: Seed = None,
) -> None:
    """Run a recipe: draws, trade-off, samples, report.

    The report opens in a browser. If the run is stopped, the same command goes on from there.

    Example: quasir run scientists --out runs/scientists
    """
    made = pipeline.run(recipe, out, draws=draws, seed=seed, progress=Bars(), allow_code=allow_code)
    if json:
        print((made.folder / "certificate.json").read_text(), end="")
    else:
        checks = show_checks(made.outcome.sampled)
        print(f"{made.certificate}\n{checks}\n\n{_listing(made.folder)}")


def _listing(folder: Path) -> str:
    """Return where the results are."""
    return (
        f"open {folder / 'report.html'} in a browser\n"
        f"samples: {folder / 'samples.jsonl'}; more: quasir sample {folder} -n 1000"
    )
