"""A run on disk as an object: its draws, trade-off, certificate and samples."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from quasir.certificates.certificate import Certificate
from quasir.certificates.check import Check
from quasir.certificates.curve import Curve, tradeoff
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.recipes import Recipe
from quasir.runs.integrity import command, read_checked
from quasir.runs.outcome import Outcome, conclude
from quasir.samplers.results import Samples
from quasir.store import Store

__all__ = ["Run"]


class Run:
    """A run that is on disk.

    Make one with `quasir.run`, or open an existing one with `quasir.open_run`. Each attribute is
    read or computed at its first use; no model is loaded, and nothing is written.

    Attributes
    ----------
    folder : Path

    Examples
    --------
    >>> import tempfile
    >>> import quasir as qr
    >>> recipe = {"base": {"table": {"a": 0.9, "b": 0.1}}, "choose": {"beta": 1}, "samples": 10}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = qr.run(recipe, out=f"{folder}/letters", draws=1000, progress=False)
    ...     print(len(run.draws), len(run.samples), run.report.name)
    1000 10 report.html
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def store(self) -> Store:
        """The draws on disk."""
        return Store.open(self.folder)

    @cached_property
    def recipe(self) -> Recipe:
        """The resolved recipe, with the fitted lambda."""
        path = self.folder / "recipe.yaml"
        if not path.is_file():
            raise InputError(
                f"{self.folder} has no recipe.yaml that says what was asked: "
                f"`{command('tradeoff', self.folder)}` needs none."
            )
        return read_checked(self.folder, self.store)

    @cached_property
    def draws(self) -> Draws:
        """The items that were proposed and scored."""
        return Draws.load(self.store)

    @cached_property
    def curve(self) -> Curve:
        """The trade-off."""
        return tradeoff(self.draws)

    @cached_property
    def outcome(self) -> Outcome:
        """The results from the draws, at the beta that the recipe chooses."""
        return conclude(self.recipe, self.draws, self.curve, self.folder)

    @property
    def certificate(self) -> Certificate:
        """The certificate at the beta that the recipe chooses."""
        return self.outcome.certificate

    @property
    def samples(self) -> Samples:
        """The samples accepted at that beta."""
        return self.outcome.samples

    @property
    def checks(self) -> tuple[Check, ...]:
        """The samples' moments, compared with those that the certificate predicts."""
        return self.outcome.checks

    @property
    def report(self) -> Path:
        """The path of the run's page."""
        return self.folder / "report.html"

    def __repr__(self) -> str:
        return f"<Run {self.folder}: {len(self.store):,} draws>"

    def _repr_html_(self) -> str:
        return self.certificate._repr_html_() + self.curve._repr_html_()
