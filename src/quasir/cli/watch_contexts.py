"""Watching a run over contexts while it draws."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quasir.certificates.contexts_certificate import ContextsCertificate
from quasir.errors import InputError, QuasirError
from quasir.runs.contexts.on_disk import ContextRun
from quasir.runs.outcome import choose_beta
from quasir.runs.shard_work import kept_draws
from quasir.runs.watch import Glance, Guaranteed, Precision, speed_of

__all__ = ["ContextsGlance", "ContextsWatcher", "check_until"]

FEW = 200
"""With more contexts, the whole is computed only if --until needs it: it takes seconds."""


@dataclass(frozen=True, kw_only=True)
class ContextsGlance(Glance):
    """A run over contexts at one moment.

    Attributes
    ----------
    rounds : int
        Rounds of drawing so far.
    contexts : int
    begun : int
        Contexts that have draws.
    whole : ContextsCertificate or None
    """

    rounds: int
    contexts: int
    begun: int
    whole: ContextsCertificate | None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        return super().to_dict() | {
            "rounds": self.rounds,
            "contexts": self.contexts,
            "contexts_begun": self.begun,
            "whole": None if self.whole is None else self.whole.to_dict(),
        }


def check_until(requests: list[Precision | Guaranteed], context: int | None) -> None:
    """Refuse requests that nothing over all contexts is judged by."""
    for request in requests:
        if context is None and not (isinstance(request, Guaranteed) and request.name == "tvd"):
            raise InputError(
                "over all contexts only a mean TVD is guaranteed, as in --until tvd<=0.1: for "
                "other requests name one context with --context."
            )


class ContextsWatcher:
    """Looks at a run over contexts, or at one of them, again and again."""

    def __init__(self, folder: Path, context: int | None, judged: bool) -> None:
        self.folder, self.context, self.judged = folder, context, judged
        if context is not None:
            _ = ContextRun(folder)[context]

    def look(self) -> ContextsGlance:
        """Return the run as it is now."""
        run = ContextRun(self.folder)
        store, counts = run.store, run.store.counts()
        whole = curve = certificate = short = None
        draws = int(counts.sum())
        if self.context is not None and len(counts) and counts[self.context]:
            curve = run[self.context].curve
            try:
                certificate, short = choose_beta(curve, run.recipe.choose.asked)
            except QuasirError as error:
                short = str(error)
        elif self.context is None and draws and (self.judged or len(run) <= FEW):
            whole = run.certificate
        return ContextsGlance(
            folder=self.folder,
            draws=draws,
            unfinished=max(kept_draws(store) - draws, 0),
            wanted=run.recipe.draws,
            per_second=speed_of(store),
            workers=store.manifest.workers,
            machines=store.manifest.machines,
            stopped=store.manifest.stopped,
            curve=curve,
            certificate=certificate,
            short=short,
            rounds=len(store.rounds),
            contexts=len(run),
            begun=int((counts > 0).sum()),
            whole=whole,
        )
