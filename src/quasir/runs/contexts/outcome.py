"""The results of a run over contexts: each context's certificate and samples, and the whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from quasir.certificates.certificate import Certificate
from quasir.certificates.tradeoff import tradeoff
from quasir.certificates.whole import Whole, whole_of
from quasir.core.types import Array
from quasir.draws.draws import Draws
from quasir.errors import QuasirError
from quasir.estimation.shares import LEVELS, mean_promise, tvd_log_wealths
from quasir.recipes.schema import Recipe
from quasir.runs.contexts.allocation import shared_out
from quasir.runs.contexts.table import Entry
from quasir.runs.outcome import choose_beta
from quasir.runs.sampling import Sampled, doubts_of, sample_run

__all__ = ["ContextResult", "ContextsOutcome", "conclude_context", "conclude_contexts"]


@dataclass(frozen=True, eq=False, kw_only=True)
class ContextResult:
    """What came of one context.

    Attributes
    ----------
    entry : Entry
    n : int
        Its draws.
    sampled : Sampled or None
        Samples and the certificate at the beta that the wish chooses, or at the closest one.
    unserved : str or None
        Why the context is not served.
    short : str or None
        That there are fewer samples than its share.
    log_wealth : array
        The wealth against "TVD > tau", at each of the levels of `quasir.estimation.shares`.
    """

    entry: Entry
    n: int
    sampled: Sampled | None = None
    unserved: str | None = None
    short: str | None = None
    log_wealth: Array

    @property
    def place(self) -> int:
        """The place of the context."""
        return self.entry.context.place

    @property
    def certificate(self) -> Certificate | None:
        """Its certificate, if there is one."""
        return None if self.sampled is None else self.sampled.certificate

    @property
    def doubts(self) -> list[str]:
        """All doubts: of the certificate, of the checks on its samples, and about their number."""
        if self.sampled is None:
            return []
        short = [] if self.short is None else [self.short]
        return [*self.sampled.certificate.doubts, *doubts_of(self.sampled.checks), *short]

    @cached_property
    def id(self) -> str:
        """The name of its certificate: the context, and a hash of what it rests on."""
        certificate = self.certificate
        beta = None if certificate is None else certificate.log_beta
        digest = hashlib.sha256(f"{self.entry.seed} {self.n} {beta!r}".encode()).hexdigest()
        return f"{self.place}-{digest[:12]}"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        certificate = self.certificate
        return {
            "context": self.place,
            "fields": dict(self.entry.context.fields),
            "draws": self.n,
            "samples": 0 if self.sampled is None else len(self.sampled.samples),
            "unserved": self.unserved,
            "certificate_id": self.id,
            "certificate": None
            if certificate is None
            else certificate.to_dict() | {"doubts": self.doubts},
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class ContextsOutcome:
    """The results of all contexts, in their order, and the certificate of the whole."""

    results: list[ContextResult]
    whole: Whole

    @property
    def served(self) -> list[ContextResult]:
        """The contexts that are served."""
        return [result for result in self.results if result.unserved is None]


def conclude_context(
    entry: Entry,
    draws: Draws | None,
    wish: Mapping[str, float],
    samples: int,
    more: Callable[[int], Draws] | None = None,
    most: int | None = None,
) -> ContextResult:
    """Choose beta for one context and sample from its draws.

    `more` and `most` are the `more` and `max_proposals` of `sample_run`.
    """
    nothing = np.full(len(LEVELS), -np.inf)
    if draws is None:
        why = entry.failed or "it has no draws yet."
        return ContextResult(entry=entry, n=0, unserved=why, log_wealth=nothing)
    # One level is enough here: the whole curve is made for the contexts that are looked at.
    curve = tradeoff(draws, log_betas=[0.0])
    n = len(draws)
    try:
        certificate, why_not = choose_beta(curve, dict(wish))
    except QuasirError as error:
        return ContextResult(entry=entry, n=n, unserved=str(error), log_wealth=nothing)
    drawing_on = more if why_not is None else None
    sampled = sample_run(draws, certificate, samples, drawing_on, most)
    n = sampled.certificate.n
    found = len(sampled.samples)
    short = None
    if found < samples:
        short = f"Only {found:,} of its {samples:,} samples are among the {n:,} draws."
    evaluator = curve.evaluator
    wealth = tvd_log_wealths(evaluator.spread, certificate.log_beta, evaluator.ground(0.95))
    return ContextResult(
        entry=entry, n=n, sampled=sampled, unserved=why_not, short=short, log_wealth=wealth
    )


def conclude_contexts(
    recipe: Recipe,
    entries: Sequence[Entry],
    draws: Mapping[int, Draws],
    report: Callable[[int, int, int], object] = lambda done, n, drawn: None,
) -> ContextsOutcome:
    """Return the results of all contexts; nothing is written."""
    wish = recipe.choose.wish
    results = []
    for entry, samples in zip(entries, shared_out(recipe.samples, len(entries)), strict=True):
        place = entry.context.place
        results.append(conclude_context(entry, draws.get(place), wish, samples))
        report(len(results), len(entries), len(results))
    served = [result for result in results if result.unserved is None]
    promise = None
    if served:
        wealth = np.stack([result.log_wealth for result in served])
        confidence = float(wish.get("confidence", 0.95))
        promise = mean_promise(wealth, len(entries), confidence)
    whole = whole_of(
        [result.certificate for result in served if result.certificate is not None],
        contexts=len(entries),
        n=sum(result.n for result in results),
        promise=promise,
        unserved={r.place: r.unserved for r in results if r.unserved is not None},
    )
    return ContextsOutcome(results=results, whole=whole)
