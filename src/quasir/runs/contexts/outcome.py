"""The results of a run over contexts: each context's certificate and samples, and the whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from quasir.certificates.certificate import Certificate
from quasir.certificates.contexts_certificate import ContextsCertificate, certify_contexts
from quasir.certificates.curve import tradeoff
from quasir.draws.draws import Draws
from quasir.errors import QuasirError
from quasir.estimation.mean_guarantee import NO_EVIDENCE, Evidence, mean_guarantee, tvd_evidence
from quasir.recipes.schema import Recipe
from quasir.runs.contexts.allocation import MOST, most_draws
from quasir.runs.contexts.table import Entry
from quasir.runs.outcome import choose_beta
from quasir.runs.sampling import Sampled, sample_run, warnings_of

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
        Samples and the certificate at the beta that the request chooses, or at the closest one.
    unserved : str or None
        Why the context is not served.
    short : str or None
        That there are fewer samples than the recipe asks for.
    evidence : Evidence
        What its draws show about TVD at the chosen beta.
    """

    entry: Entry
    n: int
    sampled: Sampled | None = None
    unserved: str | None = None
    short: str | None = None
    evidence: Evidence = NO_EVIDENCE

    @property
    def place(self) -> int:
        """The place of the context."""
        return self.entry.context.place

    @property
    def certificate(self) -> Certificate | None:
        """Its certificate, if there is one."""
        return None if self.sampled is None else self.sampled.certificate

    @property
    def warnings(self) -> list[str]:
        """The warnings of the certificate, of its samples' checks, and about their number."""
        if self.sampled is None:
            return []
        short = [] if self.short is None else [self.short]
        return [*self.sampled.certificate.warnings, *warnings_of(self.sampled.checks), *short]

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
            else certificate.to_dict() | {"warnings": self.warnings},
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class ContextsOutcome:
    """The results of all contexts, in their order, and the certificate of the whole."""

    results: list[ContextResult]
    whole: ContextsCertificate

    @property
    def served(self) -> list[ContextResult]:
        """The contexts that are served."""
        return [result for result in self.results if result.unserved is None]


def conclude_context(
    entry: Entry,
    draws: Draws | None,
    request: Mapping[str, float],
    samples: int,
    more: Callable[[int], Draws] | None = None,
    most: int | None = None,
) -> ContextResult:
    """Choose beta for one context and sample from its draws.

    `more` and `most` are the `more` and `max_proposals` of `sample_run`.
    """
    if draws is None:
        why = entry.failed or "it has no draws yet."
        return ContextResult(entry=entry, n=0, unserved=why)
    curve = tradeoff(draws)
    n = len(draws)
    try:
        certificate, why_not = choose_beta(curve, dict(request))
    except QuasirError as error:
        return ContextResult(entry=entry, n=n, unserved=str(error))
    drawing_on = more if why_not is None else None
    sampled = sample_run(draws, certificate, samples, drawing_on, most)
    n = sampled.certificate.n
    found = len(sampled.samples)
    short = None
    if found < samples:
        short = f"Only {found:,} of its {samples:,} samples are among the {n:,} draws."
    evaluator = curve.evaluator
    binned, assumptions = evaluator.binned, evaluator.assumptions(0.95)
    evidence = tvd_evidence(binned, certificate.log_beta, assumptions)
    return ContextResult(
        entry=entry, n=n, sampled=sampled, unserved=why_not, short=short, evidence=evidence
    )


def _given_up(result: ContextResult, most: int, budget: int) -> ContextResult:
    """Say of an unserved context that it got no more draws, and why."""
    if result.unserved is None or result.n < most:
        return result
    why = (
        f"{result.unserved} It was given up after {result.n:,} draws, {MOST:g} times an equal "
        f"share of the {budget:,}: raise draws, or change its prompt or the request."
    )
    return replace(result, unserved=why)


def conclude_contexts(
    recipe: Recipe,
    entries: Sequence[Entry],
    draws: Mapping[int, Draws],
    report: Callable[[int, int, int], object] = lambda done, n, drawn: None,
) -> ContextsOutcome:
    """Return the results of all contexts; nothing is written."""
    request = recipe.choose.asked
    samples = recipe.samples_of_each(len(entries))
    most = most_draws(recipe.draws, sum(entry.failed is None for entry in entries))
    results = []
    for entry in entries:
        result = conclude_context(entry, draws.get(entry.context.place), request, samples)
        results.append(_given_up(result, most, recipe.draws))
        report(len(results), len(entries), len(results))
    served = [result for result in results if result.unserved is None]
    guarantee = None
    if served:
        confidence = float(request.get("confidence", 0.95))
        guarantee = mean_guarantee([result.evidence for result in served], len(entries), confidence)
    whole = certify_contexts(
        [result.certificate for result in served if result.certificate is not None],
        contexts=len(entries),
        n=sum(result.n for result in results),
        guarantee=guarantee,
        unserved={r.place: r.unserved for r in results if r.unserved is not None},
    )
    return ContextsOutcome(results=results, whole=whole)
