"""A run on disk as an object: its contexts, and of each the draws, trade-off and samples."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from quasir.certificates.certificate import Certificate, Check, WantedMoment, wanted_moments
from quasir.certificates.contexts_certificate import ContextsCertificate, certify_contexts
from quasir.certificates.curve import Curve, is_large, tradeoff
from quasir.core.formatting import short_repr
from quasir.core.progress import Quiet, Reporter
from quasir.draws.draws import Draws
from quasir.errors import InputError, QuasirError
from quasir.estimation.guarantee import mean_guarantee, tvd_evidence
from quasir.recipes.placeholders import unfilled
from quasir.recipes.schema import ALL_SAMPLES, Recipe
from quasir.runs.contexts import MOST, Entry, draws_by_context, draws_of, entries_of, most_draws
from quasir.runs.integrity import command, read_checked
from quasir.runs.sampling import Sampled, Source, choose_beta, sample_run, warnings_of
from quasir.samplers.results import Samples
from quasir.store import Store
from quasir.store.store import open_store


class Run:
    """A run that is on disk, over one context or many.

    Make one with `quasir.run`, or open an existing one with `quasir.open_run`. Each attribute is
    read or computed at its first use; no model is loaded, and nothing is written, except for a
    summary of each shard where there are more than 20 million draws.

    ``run[i]`` is context i: a `RunContext`, with its draws, curve, certificate and samples. An
    ordinary run has one context, whose draws, curve, samples and checks are also those of the run.

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

    A recipe for each of two contexts:

    >>> recipe = {
    ...     "base": {"table": {"a cat": 0.6, "a dog": 0.4}},
    ...     "features": {"has": {"contains": "{word}"}},
    ...     "want": {"has": 1},
    ...     "choose": {"beta": 1},
    ... }
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = qr.run(recipe, f"{folder}/r", 8000, contexts=["cat", "dog"], progress=False)
    ...     [round(one.certificate.acceptance_rate.value, 1) for one in run]
    [0.6, 0.4]
    """

    def __init__(
        self,
        folder: Path,
        *,
        stream: bool | None = None,
        reporter: Reporter | None = None,
        **at_hand: Any,
    ) -> None:
        self.folder, self.stream, self.reporter = folder, stream, reporter or Quiet()
        vars(self).update(at_hand)  # store, recipe and entries, where they need not be read

    @cached_property
    def store(self) -> Store:
        """The draws on disk."""
        return open_store(self.folder)

    @cached_property
    def recipe(self) -> Recipe:
        """The resolved recipe, with the fitted lambda, and with fields of the contexts."""
        if not self.has_recipe:
            raise InputError(
                f"{self.folder} has no recipe.yaml that says what was asked: "
                f"`{command('tradeoff', self.folder)}` needs none."
            )
        return read_checked(self.folder, self.store)

    @property
    def has_recipe(self) -> bool:
        """Whether it was drawn from a recipe; draws that were saved from Python have none."""
        return (self.folder / "recipe.yaml").is_file()

    @cached_property
    def entries(self) -> list[Entry]:
        """The contexts, and what is known about each."""
        return entries_of(self.store)

    @property
    def over_contexts(self) -> bool:
        """Whether it has a table of contexts; an ordinary run has one context, without fields."""
        return self.store.manifest.contexts is not None

    @property
    def samples_of_each(self) -> int:
        """How many samples of each context are given, where nobody says."""
        return self.recipe.samples_of_each(len(self)) if self.over_contexts else ALL_SAMPLES

    @cached_property
    def outcome(self) -> Outcome:
        """The results of all contexts, at the betas that the recipe chooses; nothing is written."""
        return _conclude_contexts(self) if self.over_contexts else _conclude_one(self._only)

    @property
    def certificate(self) -> Certificate | ContextsCertificate:
        """The certificate of the run: of its one context, or of all contexts together."""
        found = self.outcome.whole or self.outcome.results[0].certificate
        assert found is not None
        return found

    @property
    def report(self) -> Path:
        """The path of the run's page."""
        return self.folder / "report.html"

    @property
    def draws(self) -> Draws:
        """The items that were proposed and scored."""
        return self._one("draws").draws

    @property
    def curve(self) -> Curve:
        """The trade-off."""
        return self._one("curve").curve

    @property
    def samples(self) -> Samples:
        """The samples accepted at the chosen beta."""
        samples = self._one("samples").samples
        assert samples is not None
        return samples

    @property
    def checks(self) -> tuple[Check, ...]:
        """The samples' moments, compared with those that the certificate predicts."""
        return self._one("checks").checks

    def _one(self, name: str) -> RunContext:
        if len(self) > 1:
            raise InputError(
                f"{self.folder} is a run over {len(self):,} contexts, and each has its own {name}: "
                f"take one of them, as in run[0].{name}."
            )
        return self._only

    @cached_property
    def _only(self) -> RunContext:
        return RunContext(self, 0)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> RunContext:
        whole = isinstance(index, int) and not isinstance(index, bool)
        if not whole or not 0 <= index < len(self):
            raise InputError(
                f"there is no context {short_repr(index)}: they are numbered from 0 to "
                f"{len(self) - 1}."
            )
        return self._only if len(self) == 1 else RunContext(self, index)

    def __iter__(self) -> Iterator[RunContext]:
        return (self[i] for i in range(len(self)))

    def contexts_with_draws(
        self, context: int | None = None, items: bool = True
    ) -> Iterator[RunContext]:
        """Yield one context, or all; the draws of many are read together."""
        if context is not None or len(self) == 1:
            yield self[context or 0]
            return
        found = draws_by_context(self.store, self.entries, items)
        index, draws = next(found)
        for one in self:
            one.n = 0
            if one.index == index:
                one.n, one.draws = len(draws), draws
                index, draws = next(found, (-1, draws))
            yield one

    def __repr__(self) -> str:
        contexts = f"{len(self):,} contexts, " if self.over_contexts else ""
        return f"<Run {self.folder}: {contexts}{len(self.store):,} draws>"

    def _repr_html_(self) -> str:
        if self.over_contexts:
            return f"<pre>{html.escape(str(self.certificate))}</pre>"
        certificate = self._only.certificate
        assert certificate is not None
        return certificate._repr_html_() + self.curve._repr_html_()


class RunContext:
    """One context of a run: its draws, trade-off, certificate and samples.

    ``run[i]`` gives it; an ordinary run has one.

    Attributes
    ----------
    run : Run
    index : int
        Its number, counted from 0.

    Examples
    --------
    >>> import tempfile
    >>> import quasir as qr
    >>> recipe = {"base": {"table": {"a": 0.9, "b": 0.1}}, "choose": {"beta": 1}, "samples": 10}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = qr.run(recipe, out=f"{folder}/letters", draws=1000, progress=False)
    ...     run[0].fields, len(run[0].samples)
    ({}, 10)
    """

    def __init__(self, run: Run, index: int) -> None:
        self.run, self.index = run, index

    @property
    def entry(self) -> Entry:
        """What is known about it."""
        return self.run.entries[self.index]

    @property
    def fields(self) -> dict[str, Any]:
        """Its fields; the context of an ordinary run has none."""
        return self.entry.fields

    @cached_property
    def n(self) -> int:
        """How many draws it has."""
        counts = self.run.store.counts()
        return int(counts[self.index]) if len(counts) else 0

    @property
    def recipe(self) -> Recipe:
        """The run's recipe, with these fields filled in."""
        return self.entry.filled(self.run.recipe)

    @cached_property
    def draws(self) -> Draws:
        """Its draws, in memory."""
        return draws_of(self.run.store, self.entry)

    @property
    def streamed(self) -> bool:
        """Whether its draws are read shard by shard: by default if they are over 20 million."""
        stream = is_large(self.run.store) if self.run.stream is None else self.run.stream
        return stream and not self.run.over_contexts

    @property
    def source(self) -> Source:
        """Its draws in memory, or on disk if they are streamed."""
        return self.run.store if self.streamed else self.draws

    @cached_property
    def curve(self) -> Curve:
        """Its trade-off; from summaries of the shards, if the draws are streamed."""
        if not self.streamed:
            if "draws" in vars(self):
                return tradeoff(self.draws)
            return tradeoff(draws_of(self.run.store, self.entry, items=False))
        with self.run.reporter.stage("summarising") as report:
            curve = tradeoff(self.run.store, stream=True, progress=report)
        seen = curve.tvd.value > 0
        slack = max((curve.tvd_slack[seen] / curve.tvd.value[seen]).tolist(), default=0.0)
        self.run.reporter.say(
            f"streamed: betas are whole powers of e^{curve.bin_width:g}, and TVD is known to "
            f"within {100 * slack:.2g} % of that of all draws"
        )
        return curve

    @cached_property
    def result(self) -> Result:
        """What came of it, at the beta that the recipe chooses."""
        if not self.run.over_contexts:
            return self.run.outcome.results[0]
        recipe = self.run.recipe
        return sample_context(self, recipe.samples_of_each(len(self.run)), recipe.choose.asked)

    @property
    def certificate(self) -> Certificate | None:
        """Its certificate; None if not even the closest one is known."""
        return self.result.certificate

    @property
    def samples(self) -> Samples | None:
        """Its samples."""
        return None if self.result.sampled is None else self.result.sampled.samples

    @property
    def checks(self) -> tuple[Check, ...]:
        """The samples' moments, compared with those that the certificate predicts."""
        return () if self.result.sampled is None else self.result.sampled.checks

    def __repr__(self) -> str:
        return f"<context {self.index} of {self.run.folder}: {self.fields!r}>"


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
    def certificate(self) -> Certificate | None:
        """Its certificate, if there is one."""
        return None if self.sampled is None else self.sampled.certificate

    @property
    def warnings(self) -> list[str]:
        """The warnings of the certificate, of its samples' checks, and about their number."""
        if (done := self.sampled) is None:
            return []
        short = filter(None, [self.short])
        return [*done.certificate.warnings, *warnings_of(done.checks), *short]

    @cached_property
    def id(self) -> str:
        """The name of its certificate: the context, and a hash of what it rests on."""
        certificate = self.certificate
        beta = None if certificate is None else certificate.log_beta
        digest = hashlib.sha256(f"{self.entry.seed} {self.n} {beta!r}".encode()).hexdigest()
        return f"{self.entry.index}-{digest[:12]}"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        certificate = self.certificate
        made = None if certificate is None else certificate.to_dict() | {"warnings": self.warnings}
        return {
            "context": self.entry.index,
            "fields": self.entry.fields,
            "draws": self.n,
            "samples": 0 if self.sampled is None else len(self.sampled.samples),
            "unserved": self.unserved,
            "certificate_id": self.id,
            "certificate": made,
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """The results of a run."""

    results: list[Result]  # of all contexts, in their order
    whole: ContextsCertificate | None = None  # of all together, in a run over contexts
    shortfalls: tuple[str, ...] = ()  # what the recipe asked for and did not get


def _conclude(
    one: RunContext,
    request: dict[str, float],
    samples: int,
    more: Callable[[int], Source] | None = None,
    most: int | None = None,
) -> Result:
    """Choose beta for one context and sample from its draws; see `sample_run`."""
    entry = one.entry
    if entry.fields and not one.n:
        return Result(entry=entry, n=0, unserved=entry.failed or "it has no draws yet.")
    try:
        certificate, unserved = choose_beta(one.curve, request)
    except QuasirError as error:
        if not entry.fields:
            raise
        return Result(entry=entry, n=one.n, unserved=str(error))
    drawing_on = more if unserved is None or not entry.fields else None
    sampled = sample_run(one.source, certificate, samples, drawing_on, most)
    n, found = sampled.certificate.n, len(sampled.samples)
    short = f"Only {found:,} of its {samples:,} samples are among the {n:,} draws."
    short_of = short if found < samples else None
    return Result(entry=entry, n=n, sampled=sampled, unserved=unserved, short=short_of)


def _conclude_one(one: RunContext) -> Outcome:
    """Return the result of an ordinary run; its shortfalls are warnings of the certificate."""
    recipe, curve = one.run.recipe, one.curve
    result = _conclude(one, recipe.choose.asked, recipe.samples)
    sampled = result.sampled
    assert sampled is not None
    shortfalls = [] if result.unserved is None else [result.unserved]
    shortfalls += unfilled(recipe)
    if len(sampled.samples) < recipe.samples:
        shortfalls.append(
            f"Only {len(sampled.samples):,} of the {recipe.samples:,} samples asked for are among "
            f"the draws: `{command('sample', one.run.folder, '-n', recipe.samples, recipe=recipe)}`"
            " draws more until there are enough."
        )
    pairs = zip(curve.evaluator.names, curve.evaluator.boolean, strict=True)
    boolean = [name for name, is_boolean in pairs if is_boolean]
    wanted = wanted_moments(curve, sampled.certificate, recipe.want, boolean)
    shortfalls += [moment.warning for moment in wanted if moment.warning is not None]
    sampled = sampled.with_warnings(*shortfalls)
    result = replace(result, sampled=sampled, unserved=None, short=None, wanted=wanted)
    return Outcome(results=[result], shortfalls=tuple(shortfalls))


def _conclude_contexts(run: Run) -> Outcome:
    recipe, entries, evidence = run.recipe, run.entries, []
    request, samples = recipe.choose.asked, recipe.samples_of_each(len(entries))
    most = most_draws(recipe.draws, sum(entry.failed is None for entry in entries))
    results = []
    for one in run.contexts_with_draws():
        result = _conclude(one, request, samples)
        if result.unserved is not None and result.n >= most:
            why = (
                f"{result.unserved} It was given up after {result.n:,} draws, {MOST:g} times an "
                f"equal share of the {recipe.draws:,}: raise draws, or change its prompt or the "
                "request."
            )
            result = replace(result, unserved=why)
        results.append(result)
        if result.unserved is None and result.certificate is not None:
            evaluator, level = one.curve.evaluator, result.certificate.log_beta
            evidence.append(tvd_evidence(evaluator.binned, level, evaluator.assumptions(0.95)))
    unserved = {r.entry.index: r.unserved for r in results if r.unserved is not None}
    served = [r.certificate for r in results if r.unserved is None and r.certificate is not None]
    confidence = float(request.get("confidence", 0.95))
    whole = certify_contexts(
        served,
        contexts=len(entries),
        n=sum(result.n for result in results),
        guarantee=mean_guarantee(evidence, len(entries), confidence) if served else None,
        unserved=unserved,
    )
    said = (
        f"{len(unserved):,} of {len(entries):,} contexts are not served; "
        f"{run.folder / 'contexts.csv'} says why"
    )
    return Outcome(results=results, whole=whole, shortfalls=(said,) if unserved else ())


def sample_context(
    one: RunContext,
    n: int,
    request: dict[str, float],
    more: Callable[[int], Source] | None = None,
    most: int | None = None,
    closest: bool = True,
) -> Result:
    """Return n samples of a context at the beta that a request chooses; `more` draws for them."""
    if not (closest or one.fields):
        _ = one.curve.at(**request)  # says so, if it cannot be met
    result = _conclude(one, request, n, more, most)
    if one.fields or result.sampled is None or result.unserved is None:
        return result
    warned = result.sampled.with_warnings(result.unserved)
    return replace(result, sampled=warned, unserved=None)


def open_run(folder: str | Path) -> Run:
    """Open an existing run; no model is loaded, and nothing is written.

    Raises
    ------
    InputError
        If the folder holds no run.

    Examples
    --------
    >>> import tempfile
    >>> import quasir as qr
    >>> recipe = {"base": {"table": {"a": 0.9, "b": 0.1}}, "choose": {"beta": 1}, "samples": 10}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = qr.run(recipe, out=f"{folder}/letters", draws=1000, progress=False)
    ...     print(len(qr.open_run(f"{folder}/letters").samples))
    10
    """
    run = Run(Path(folder))
    _ = run.store
    return run
