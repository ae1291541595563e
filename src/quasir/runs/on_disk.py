"""A run as an object: its draws, its trade-off, its certificate and its samples."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from quasir import recipes
from quasir.certificates.certificate import Certificate
from quasir.certificates.check import Check
from quasir.certificates.curve import Curve
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.recipes import Recipe
from quasir.runs.outcome import Outcome, conclude
from quasir.samplers.results import Samples
from quasir.store import Store

__all__ = ["Run", "open_run"]


class Run:
    """A run that is on disk.

    Make one with `quasir.run`, or open one that is there with `quasir.open_run`. What is asked
    for is read or computed when it is first asked for; no model is loaded, and nothing is written.

    Attributes
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def store(self) -> Store:
        """The draws on disk."""
        return Store.open(self.folder)

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe as resolved, with the fitted lambda."""
        path = self.folder / "recipe.yaml"
        if not path.is_file():
            raise InputError(
                f"{self.folder} has no recipe.yaml to tell what was asked: `quasir tradeoff` and "
                "`quasir sample` do without."
            )
        return recipes.read(path)

    @cached_property
    def outcome(self) -> Outcome:
        """All that comes of the draws."""
        recipe = self.recipe
        return conclude(recipe, Draws.load(self.store), self.folder)

    @property
    def draws(self) -> Draws:
        """What was proposed and scored."""
        return self.outcome.draws

    @property
    def curve(self) -> Curve:
        """The trade-off."""
        return self.outcome.curve

    @property
    def certificate(self) -> Certificate:
        """At the beta that the recipe chooses."""
        return self.outcome.certificate

    @property
    def samples(self) -> Samples:
        """Accepted at that beta."""
        return self.outcome.samples

    @property
    def checks(self) -> tuple[Check, ...]:
        """The samples' moments beside those that the certificate predicts."""
        return self.outcome.checks

    @property
    def report(self) -> Path:
        """The page of the run, where it was written."""
        return self.folder / "report.html"

    def __repr__(self) -> str:
        return f"<Run {self.folder}: {len(self.store):,} draws>"

    def _repr_html_(self) -> str:
        return self.certificate._repr_html_() + self.curve._repr_html_()


def open_run(folder: str | Path) -> Run:
    """Open a run that is there; no model is loaded, and nothing is written.

    Raises
    ------
    InputError
        Where the folder holds no run.
    """
    run = Run(Path(folder))
    _ = run.store
    return run
