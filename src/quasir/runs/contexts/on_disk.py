"""A run over contexts on disk as an object: its contexts, their draws, and the whole."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from quasir.certificates.certificate import Certificate
from quasir.certificates.contexts_certificate import ContextsCertificate
from quasir.certificates.curve import Curve, tradeoff
from quasir.core.formatting import short_repr
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.recipes.schema import Recipe
from quasir.runs.contexts.begun import read_contexts_recipe
from quasir.runs.contexts.loading import draws_by_context, draws_of
from quasir.runs.contexts.outcome import (
    ContextResult,
    ContextsOutcome,
    conclude_context,
    conclude_contexts,
)
from quasir.runs.contexts.table import Entry, read_table
from quasir.samplers.results import Samples
from quasir.store.context_store import ContextStore

__all__ = ["ContextRun", "OneContext"]


class ContextRun:
    """A run over contexts that is on disk.

    Make one with ``quasir.run(recipe, contexts=...)``, or open one with `quasir.open_run`.
    ``run[i]`` is context i. No model is loaded, and nothing is written.

    Attributes
    ----------
    folder : Path

    Examples
    --------
    >>> import tempfile
    >>> import quasir as qr
    >>> recipe = {
    ...     "base": {"table": {"a cat": 0.6, "a dog": 0.4}},
    ...     "features": {"has": {"contains": "{word}"}},
    ...     "want": {"has": 1},
    ...     "choose": {"beta": 1},
    ... }
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = qr.run(recipe, f"{folder}/r", 8000, contexts=["cat", "dog"], progress=False)
    ...     [round(one.certificate.acceptance_rate.value, 1) for one in (run[0], run[1])]
    [0.6, 0.4]
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def store(self) -> ContextStore:
        """The draws on disk."""
        return ContextStore.open(self.folder)

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe, with fields of the contexts."""
        return read_contexts_recipe(self.folder, self.store)

    @cached_property
    def entries(self) -> list[Entry]:
        """The table of contexts."""
        return read_table(self.folder, self.store.manifest.contexts or "")

    @cached_property
    def outcome(self) -> ContextsOutcome:
        """The results of all contexts."""
        return conclude_contexts(
            self.recipe, self.entries, draws_by_context(self.store, self.entries)
        )

    @property
    def certificate(self) -> ContextsCertificate:
        """The certificate of all contexts together."""
        return self.outcome.whole

    @property
    def report(self) -> Path:
        """The path of the run's page."""
        return self.folder / "report.html"

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, place: int) -> OneContext:
        whole = isinstance(place, int) and not isinstance(place, bool)
        if not whole or not 0 <= place < len(self):
            raise InputError(
                f"there is no context {short_repr(place)}: they are numbered from 0 to "
                f"{len(self) - 1}."
            )
        return OneContext(self, place)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<ContextRun {self.folder}: {len(self):,} contexts, {len(self.store):,} draws>"


class OneContext:
    """One context of a run: its draws, trade-off, certificate and samples."""

    def __init__(self, run: ContextRun, place: int) -> None:
        self.run, self.place = run, place

    @property
    def entry(self) -> Entry:
        """Its line in the table of contexts."""
        return self.run.entries[self.place]

    @property
    def fields(self) -> dict[str, Any]:
        """Its fields."""
        return dict(self.entry.context.fields)

    @cached_property
    def draws(self) -> Draws:
        """Its draws."""
        return draws_of(self.run.store, self.entry)

    @cached_property
    def curve(self) -> Curve:
        """Its trade-off."""
        return tradeoff(self.draws)

    @cached_property
    def result(self) -> ContextResult:
        """What came of it, at the beta that the recipe chooses."""
        samples = self.run.recipe.samples_of_each(len(self.run))
        return conclude_context(self.entry, self.draws, self.run.recipe.choose.asked, samples)

    @property
    def certificate(self) -> Certificate | None:
        """Its certificate; None if not even the closest one is known."""
        return self.result.certificate

    @property
    def samples(self) -> Samples | None:
        """Its samples."""
        return None if self.result.sampled is None else self.result.sampled.samples

    def __repr__(self) -> str:
        return f"<context {self.place} of {self.run.folder}: {self.fields!r}>"
