"""What every experiment shares: its command line, its draws on disk, and the form of its results.

A result is a JSON file with all numbers, and a picture. `experiments/page.py` makes the page from
these files: the verdict, at most six rows beside the paper's, and the picture.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from experiments.models import MODELS, Models
from quasir.core.files import make_folder, write_json, write_with
from quasir.core.progress import Lines
from quasir.runs.active_run import begin, prepare
from quasir.runs.pipeline import draw_all
from quasir.store import MANIFEST, Store, locked

__all__ = ["OUT", "Place", "Result", "Row", "arguments", "cell", "main", "numbers_of", "place_of"]

OUT = Path("runs/paper")
Row = tuple[str, str, str]
"""What is measured, the paper's number, and ours."""
MOST_ROWS = 6


@dataclass(frozen=True)
class Result:
    """What an experiment found.

    Attributes
    ----------
    title : str
        The figure or table of the paper.
    verdict : str
        Whether it agrees with the paper, and why not where it does not.
    rows : list of Row
        At most six, each with a number of the paper.
    draws : mapping
        Pool -> its number of draws.
    numbers : mapping
        All numbers, for the JSON file.
    figure : Figure, optional
    table : str
        Texts like those that the paper shows, in Markdown.
    """

    title: str
    verdict: str
    rows: list[Row]
    draws: Mapping[str, int]
    numbers: Mapping[str, Any] = field(default_factory=dict)
    figure: Any = None
    table: str = ""


@dataclass(frozen=True)
class Place:
    """Where an experiment keeps its draws and results, with which models, and how many draws.

    Attributes
    ----------
    out : Path
    draws : int
        Draws of each pool. A pool that has more already is used whole; 0 draws nothing.
    models : Models
    large : int
        Draws of each pool of the large language model.
    """

    out: Path
    draws: int
    models: Models = MODELS["registry"]
    large: int = 0

    @property
    def of_large(self) -> Place:
        """The place for pools of the large language model."""
        return replace(self, draws=self.large)

    def pool(
        self,
        name: str,
        recipe: str | Mapping[str, Any],
        *,
        budget: int | None = None,
    ) -> Path:
        """Return the folder of a pool, after drawing what it lacks.

        Parameters
        ----------
        name : str
        recipe : str or mapping
            A built-in recipe's name, a file, or a recipe.
        budget : int, optional
            Draws of the search, where the recipe says ``proposal: auto``.
        """
        folder = self.out / "pools" / name
        if self.has(name):
            return folder
        reporter = Lines()
        reporter.say(f"pool {name}")
        with locked(folder):
            order = prepare(recipe, folder, draws=self.draws)
            draw_all(begin(order, reporter=reporter, budget=budget), reporter=reporter)
        return folder

    def has(self, name: str) -> bool:
        """Tell whether a pool has all its draws; with `draws` 0, whether it has any."""
        folder = self.out / "pools" / name
        found = len(Store.open(folder)) if (folder / MANIFEST).is_file() else 0
        return found >= max(self.draws, 1)

    def write(self, name: str, result: Result) -> None:
        """Write a result, and its figure beside it."""
        assert len(result.rows) <= MOST_ROWS, f"{name} has {len(result.rows)} rows"
        make_folder(self.out)
        if result.figure is not None:
            write_with(
                self.out / f"{name}.png",
                lambda path: result.figure.savefig(path, dpi=160, format="png"),
            )
        # Without draws the pools were taken as they are, whatever command made them.
        asked = f" --draws {self.draws} --large {self.large}" if self.draws or self.large else ""
        content = {
            "title": result.title,
            "command": f"python -m experiments.{name}{asked}",
            "draws": dict(result.draws),
            "verdict": result.verdict,
            "rows": [dict(zip(("what", "paper", "ours"), row, strict=True)) for row in result.rows],
            "table": result.table,
            "figure": f"{name}.png" if result.figure is not None else None,
            "numbers": result.numbers,
        }
        write_json(self.out / f"{name}.json", content)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that all experiments have."""
    parser.add_argument(
        "--draws",
        type=int,
        default=20_000,
        help="draws of each pool; 0 takes the pools as they are (default 20000)",
    )
    parser.add_argument(
        "--large",
        type=int,
        help="draws of each pool of the large language model (Fig. 3, and words in every text), "
        "which is slow (default: as many)",
    )
    parser.add_argument("--out", type=Path, default=OUT, help=f"folder (default {OUT})")
    parser.add_argument(
        "--models",
        choices=list(MODELS),
        default="registry",
        help="registry: what needs no hub; paper: the paper's own models, from the hub",
    )


def main(name: str, run: Callable[[Place], Result], about: str | None) -> None:
    """Run one experiment from its command line."""
    parser = argparse.ArgumentParser(
        prog=f"python -m experiments.{name}", description=(about or "").splitlines()[0]
    )
    arguments(parser)
    given = parser.parse_args()
    make(name, run, place_of(given))


def place_of(given: argparse.Namespace) -> Place:
    """Return the place that the options name."""
    large = given.draws if given.large is None else given.large
    return Place(given.out, given.draws, MODELS[given.models], large)


def make(name: str, run: Callable[[Place], Result], place: Place) -> None:
    """Run one experiment, write its result, and print it."""
    began = time.monotonic()
    result = run(place)
    place.write(name, result)
    print(f"{result.title}\n{result.verdict}")
    for what, paper, ours in result.rows:
        print(f"{what}: paper {paper}, ours {ours}")
    print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


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


def numbers_of(estimate: Any) -> dict[str, float | None]:
    """Return an estimate for a JSON file."""
    parts = {name: float(getattr(estimate, name)) for name in ("value", "se", "low", "high")}
    return {name: x if math.isfinite(x) else None for name, x in parts.items()}
