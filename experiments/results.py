"""What every experiment shares: its command line, its draws on disk, and the form of its results.

A result is a JSON file: rows of (what, paper, ours), the draws behind them, the command that made
them, and a sentence on whether they agree. `experiments/page.py` makes the page from these files.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import quasir as qr
from quasir.core.files import make_folder, write_json, write_with
from quasir.core.progress import Lines
from quasir.runs.active_run import begin, prepare
from quasir.runs.pipeline import draw_all
from quasir.store import MANIFEST, locked

__all__ = ["OUT", "Bounds", "Place", "Result", "Row", "cell", "main", "per_cent"]

OUT = Path("runs/paper")
RECIPES = Path(__file__).parent / "recipes"
DRAWS_HELP = "draws of a usual pool; Fig. 2 takes 10 times as many, Figs. 3 and 5 a quarter or less"
Row = tuple[str, str, str]
"""What is measured, the paper's number, and ours."""
Bounds = tuple[str, str, str, str]
"""Where, TVD, and two numbers that it is at most: 1 - Z_beta/Z, and the paper's 1 - p(A_beta)."""


@dataclass(frozen=True)
class Result:
    """What an experiment found.

    Attributes
    ----------
    title : str
        The figure or table of the paper.
    rows : list of Row
    draws : dict of int
        Pool -> its number of draws.
    verdict : str
        One or two sentences: whether the numbers agree, and why not where they do not.
    figure : Figure, optional
    tables : dict of str
        Title -> a further table, in Markdown.
    bounds : list of Bounds
        For the table of bounds at the page's end.
    """

    title: str
    rows: list[Row]
    draws: Mapping[str, int]
    verdict: str
    figure: Any = None
    tables: Mapping[str, str] | None = None
    bounds: Sequence[Bounds] = ()


@dataclass(frozen=True)
class Place:
    """Where an experiment keeps its draws and results, and how many draws it makes.

    Attributes
    ----------
    out : Path
    draws : int
        Draws of each pool. A pool that has more already is used whole.
    """

    out: Path
    draws: int

    def pool(
        self,
        name: str,
        recipe: str | Mapping[str, Any],
        draws: int | None = None,
        context: str | None = None,
    ) -> Path:
        """Return the folder of a pool, after drawing what it lacks.

        Parameters
        ----------
        name : str
        recipe : str or mapping
            A file in `experiments/recipes`, a built-in recipe's name, a run, or a recipe.
        draws : int, optional
            Instead of the place's.
        context : str, optional
            Of the recipe.
        """
        wanted = self.draws if draws is None else draws
        folder = self.out / "pools" / name
        if (folder / MANIFEST).is_file() and len(qr.store.Store.open(folder)) >= wanted:
            return folder
        own = RECIPES / f"{recipe}.yaml" if isinstance(recipe, str) else None
        reporter = Lines()
        reporter.say(f"pool {name}")
        with locked(folder):
            source = own if own is not None and own.is_file() else recipe
            order = prepare(source, folder, context=context, draws=wanted)
            draw_all(begin(order, reporter=reporter), reporter=reporter)
        return folder

    def write(self, name: str, result: Result, options: str = "") -> None:
        """Write a result, and its figure beside it; `options` are the command's own."""
        make_folder(self.out)
        if result.figure is not None:
            write_with(
                self.out / f"{name}.png",
                lambda path: result.figure.savefig(path, dpi=130, format="png"),
            )
        content = {
            "title": result.title,
            "command": f"python -m experiments.{name} --draws {self.draws}{options}",
            "draws": dict(result.draws),
            "rows": [dict(zip(("what", "paper", "ours"), row, strict=True)) for row in result.rows],
            "verdict": result.verdict,
            "tables": dict(result.tables or {}),
            "bounds": [list(row) for row in result.bounds],
            "figure": f"{name}.png" if result.figure is not None else None,
        }
        write_json(self.out / f"{name}.json", content)


def main(
    name: str,
    run: Callable[..., Result],
    about: str | None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Run one experiment from its command line.

    Parameters
    ----------
    name, about : str
    run : callable
    options : mapping, optional
        Options of its own, as of `argparse`; `run` gets those that are given.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m experiments.{name}", description=(about or "").splitlines()[0]
    )
    parser.add_argument("--draws", type=int, default=20_000, help=DRAWS_HELP)
    parser.add_argument("--out", type=Path, default=OUT, help=f"folder (default {OUT})")
    for option, settings in (options or {}).items():
        parser.add_argument(option, default=argparse.SUPPRESS, **settings)
    given = vars(parser.parse_args())
    place = Place(given.pop("out"), given.pop("draws"))
    result = run(place, **given)
    place.write(
        name,
        result,
        "".join(f" --{key.replace('_', '-')} {' '.join(value)}" for key, value in given.items()),
    )
    for what, paper, ours in result.rows:
        print(f"{what}: paper {paper}, ours {ours}")
    print(result.verdict)


def cell(estimate: Any, scale: float = 1.0, digits: int = 3) -> str:
    """Return an estimate for a table: value and standard error, or what is known instead.

    Examples
    --------
    >>> cell(qr.Estimate(0.12345, 0.0012, 0.121, 0.126))
    '0.123 ± 0.0012'
    >>> cell(qr.Estimate(0.0, float("nan"), 0.0, 0.012))
    '0 on these draws, at most 0.012 (95 %)'
    """
    value, se, high = (scale * float(x) for x in (estimate.value, estimate.se, estimate.high))
    if math.isnan(value):
        return "unknown"
    if bool(estimate.proved):
        return f"{value:.{digits}g}, for certain"
    if math.isnan(se):
        return f"{value:.{digits}g} on these draws, at most {high:.2g} (95 %)"
    return f"{value:.{digits}g} ± {se:.2g}"


def per_cent(estimate: Any) -> str:
    """Return an estimate of a share, in per cent."""
    return cell(estimate, 100.0) + " %"
