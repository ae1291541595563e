"""The results of a run: of each context the chosen beta, samples and checks; and the whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from quasir.certificates.certificate import Certificate, Choice
from quasir.certificates.check import WantedMoment, wanted_moments
from quasir.certificates.choice import certificate_at
from quasir.certificates.contexts_certificate import ContextsCertificate, certify_contexts
from quasir.certificates.curve import Curve, tradeoff
from quasir.draws.draws import Draws
from quasir.errors import QuasirError, UnreachableError
from quasir.estimation.mean_guarantee import mean_guarantee, tvd_evidence
from quasir.recipes import Recipe
from quasir.recipes.placeholders import prompt_fields
from quasir.runs.allocation import MOST, most_draws
from quasir.runs.contexts import Entry
from quasir.runs.integrity import command
from quasir.runs.sampling import Sampled, Source, sample_run, warnings_of


@dataclass(frozen=True, eq=False, kw_only=True)
class Result:
    """What came of one context."""

    entry: Entry
    n: int  # its draws
    sampled: Sampled | None = None  # at the chosen beta, or the closest; None if none is possible
    unserved: str | None = None  # why the request is not met
    short: str | None = None  # that there are fewer samples than the recipe asks for
    wanted: tuple[WantedMoment, ...] = ()  # of an ordinary run, with the moments of its target

    @property
    def index(self) -> int:
        """The number of the context."""
        return self.entry.index

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
        return f"{self.index}-{digest[:12]}"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        certificate = self.certificate
        return {
            "context": self.index,
            "fields": self.entry.fields,
            "draws": self.n,
            "samples": 0 if self.sampled is None else len(self.sampled.samples),
            "unserved": self.unserved,
            "certificate_id": self.id,
            "certificate": None
            if certificate is None
            else certificate.to_dict() | {"warnings": self.warnings},
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """The results of a run."""

    results: list[Result]  # of all contexts, in their order
    whole: ContextsCertificate | None = None  # of all together, in a run over contexts
    shortfalls: tuple[str, ...] = ()  # what the recipe asked for and did not get

    @property
    def certificate(self) -> Certificate | ContextsCertificate:
        """The certificate of the run: of all contexts together, or of its one context."""
        found = self.whole or self.results[0].certificate
        assert found is not None
        return found

    @property
    def served(self) -> list[Result]:
        """The contexts that are served."""
        return [result for result in self.results if result.unserved is None]


def conclude_context(
    entry: Entry,
    source: Source,
    curve: Curve,
    request: Mapping[str, float],
    samples: int,
    more: Callable[[int], Source] | None = None,
    most: int | None = None,
) -> Result:
    """Choose beta for one context and sample from its draws.

    `more` and `most` are the `more` and `max_proposals` of `sample_run`.
    """
    try:
        certificate, unserved = choose_beta(curve, dict(request))
    except QuasirError as error:
        if not entry.fields:
            raise
        return Result(entry=entry, n=curve.n, unserved=str(error))
    drawing_on = more if unserved is None or not entry.fields else None
    sampled = sample_run(source, certificate, samples, drawing_on, most)
    n, found = sampled.certificate.n, len(sampled.samples)
    short = None
    if found < samples:
        short = f"Only {found:,} of its {samples:,} samples are among the {n:,} draws."
    return Result(entry=entry, n=n, sampled=sampled, unserved=unserved, short=short)


def conclude_one(
    entry: Entry, source: Source, curve: Curve, recipe: Recipe, folder: str | Path
) -> Outcome:
    """Return the results of an ordinary run; its shortfalls are among the certificate's warnings.

    Nothing is written.
    """
    result = conclude_context(entry, source, curve, recipe.choose.asked, recipe.samples)
    sampled = result.sampled
    assert sampled is not None
    shortfalls = [] if result.unserved is None else [result.unserved]
    shortfalls += unfilled(recipe)
    found = len(sampled.samples)
    if found < recipe.samples:
        shortfalls.append(
            f"Only {found:,} of the {recipe.samples:,} samples asked for are among the draws: "
            f"`{command('sample', folder, '-n', recipe.samples, recipe=recipe)}` draws more until "
            "there are enough."
        )
    wanted = wanted_moments(curve, sampled.certificate, recipe.want, _boolean(curve))
    shortfalls += [one.warning for one in wanted if one.warning is not None]
    sampled = sampled.with_warnings(*shortfalls)
    result = replace(result, sampled=sampled, unserved=None, short=None, wanted=wanted)
    return Outcome(results=[result], shortfalls=tuple(shortfalls))


def _boolean(curve: Curve) -> list[str]:
    pairs = zip(curve.evaluator.names, curve.evaluator.boolean, strict=True)
    return [name for name, is_boolean in pairs if is_boolean]


def unfilled(recipe: Recipe) -> list[str]:
    """Return the warnings on prompts that look as if they had fields, in a run without contexts."""
    return [
        f"A prompt holds {{{name}}}, and this run has no contexts: the model read it as text. If a "
        "field was meant, begin a run with --contexts."
        for name in prompt_fields(recipe)
    ]


def choose_beta(curve: Curve, request: dict[str, float]) -> tuple[Certificate, str | None]:
    """Return the certificate for a request and None, or the closest one and why."""
    try:
        return curve.at(**request), None
    except UnreachableError as error:
        if error.best is None or not curve.n_possible:
            raise
        beta = error.best.log_beta
        level = beta if beta > float("-inf") else float(curve.log_betas[0])
        name, wanted = next((k, v) for k, v in request.items() if k != "confidence")
        choice = Choice(name, wanted, False)
        best = certificate_at(curve.evaluator, level, request.get("confidence", 0.95), choice)
        return best, f"The request could not be met, and this is the closest: {error}"


def conclude_contexts(
    recipe: Recipe, entries: Sequence[Entry], draws: Iterable[tuple[int, Draws]], folder: Path
) -> Outcome:
    """Return the results of a run over contexts; nothing is written."""
    request, samples = recipe.choose.asked, recipe.samples_of_each(len(entries))
    most = most_draws(recipe.draws, sum(entry.failed is None for entry in entries))
    results = [
        Result(entry=entry, n=0, unserved=entry.failed or "it has no draws yet.")
        for entry in entries
    ]
    evidence = []
    for index, own in draws:
        curve = tradeoff(own)
        result = conclude_context(entries[index], own, curve, request, samples)
        results[index] = _given_up(result, most, recipe.draws)
        if result.unserved is None and result.certificate is not None:
            evaluator = curve.evaluator
            assumptions = evaluator.assumptions(0.95)
            level = result.certificate.log_beta
            evidence.append(tvd_evidence(evaluator.binned, level, assumptions))
    confidence = float(request.get("confidence", 0.95))
    served = [result for result in results if result.unserved is None]
    unserved = {r.index: r.unserved for r in results if r.unserved is not None}
    whole = certify_contexts(
        [result.certificate for result in served if result.certificate is not None],
        contexts=len(entries),
        n=sum(result.n for result in results),
        guarantee=mean_guarantee(evidence, len(entries), confidence) if served else None,
        unserved=unserved,
    )
    said = (
        f"{len(unserved):,} of {len(entries):,} contexts are not served; "
        f"{folder / 'contexts.csv'} says why"
    )
    return Outcome(results=results, whole=whole, shortfalls=(said,) if unserved else ())


def _given_up(result: Result, most: int, budget: int) -> Result:
    """Say of an unserved context that it got no more draws, and why."""
    if result.unserved is None or result.n < most:
        return result
    why = (
        f"{result.unserved} It was given up after {result.n:,} draws, {MOST:g} times an equal "
        f"share of the {budget:,}: raise draws, or change its prompt or the request."
    )
    return replace(result, unserved=why)
