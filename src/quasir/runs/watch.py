"""Watching a run while it draws, and the rules that stop it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quasir.certificates.certificate import Certificate
from quasir.certificates.contexts_certificate import ContextsCertificate
from quasir.certificates.curve import Curve, curve_of, summarised_draws
from quasir.core.formatting import level_text, rounded_up
from quasir.errors import InputError, QuasirError, UnreachableError
from quasir.estimation.summary import Summary, shard_summary, summarise
from quasir.runs.outcome import choose_beta
from quasir.runs.shard_work import kept_draws
from quasir.runs.stored_run import Run
from quasir.store import Store

RECENT = 16
"""The speed is measured on so many of the last shards."""
FEW = 200
"""With more contexts, what holds over all is computed only if a rule needs it: it takes seconds."""


@dataclass(frozen=True, kw_only=True)
class Glance:
    """A run at one moment."""

    folder: Path
    draws: int  # before the first missing shard
    unfinished: int  # behind it, and in shards under way: no estimate uses them yet
    wanted: int | None  # in all, by the recipe
    per_second: float | None  # draws of all workers together, measured on the last shards
    workers: int | None
    machines: int | None
    stopped: str | None  # why the drawing was stopped, if it was
    curve: Curve | None = None
    certificate: Certificate | None = None  # at the beta that the recipe chooses, or the closest
    short: str | None = None  # why it is only the closest
    progress: dict[str, int] | None = None  # rounds, contexts, and how many of them have draws
    whole: ContextsCertificate | None = None  # of all contexts together

    @property
    def complete(self) -> bool:
        """Whether all draws are made."""
        return self.wanted is not None and self.draws >= self.wanted

    @property
    def seconds_left(self) -> float | None:
        """Time for the remaining draws at this speed."""
        if self.wanted is None or not self.per_second:
            return None
        return max(self.wanted - self.draws - self.unfinished, 0) / self.per_second

    def reached(self, rules: Sequence[Precision | Guaranteed]) -> str | None:
        """Return in words what is reached if all rules are met, else None."""
        if not rules:
            return None
        if self.whole is not None:
            guarantee = self.whole.guarantee
            if guarantee is None or any(guarantee.tvd > (rule.most or 0.0) for rule in rules):
                return None
            return (
                f"a mean TVD of at most {rounded_up(guarantee.tvd):.3g} over "
                f"{guarantee.contexts:,} contexts is guaranteed (confidence "
                f"{guarantee.confidence:g}), from {self.draws:,} draws"
            )
        certificate, curve = self.certificate, self.curve
        # The rules are about the beta that the recipe chooses, not about the closest one.
        if certificate is None or curve is None or self.short is not None:
            return None
        if not all(rule.reached(certificate, curve) for rule in rules):
            return None
        return "; ".join(rule.describe(certificate) for rule in rules)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        curve = self.curve
        over = {}
        if self.progress is not None:
            over = {**self.progress, "whole": None if self.whole is None else self.whole.to_dict()}
        return {
            "run": str(self.folder),
            "draws": self.draws,
            "unfinished": self.unfinished,
            "wanted": self.wanted,
            "draws_per_second": self.per_second,
            "seconds_left": self.seconds_left,
            "workers": self.workers,
            "machines": self.machines,
            "stopped": self.stopped,
            "ess": None if curve is None else curve.ess,
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
            "short": self.short,
            "warnings": [] if curve is None else curve.warnings,
            **over,
        }


class Watcher:
    """Looks at a run, or at one of its contexts, again and again; reads each shard once.

    `rules` say what the run is to be stopped at.
    """

    def __init__(
        self,
        folder: Path,
        context: int | None = None,
        rules: Sequence[Precision | Guaranteed] = (),
    ) -> None:
        self.folder, self.context, self.rules = folder, context, rules
        self._merged: Summary | None = None
        self._hashes: list[str] = []
        run = Run(folder)
        if rules and not run.has_recipe:
            raise InputError(
                f"{folder} has no recipe to choose beta by, so --until has nothing to judge."
            )
        if context is not None:
            _ = run[context]
        elif run.over_contexts and any(not rule.of_means for rule in rules):
            raise InputError(
                "over all contexts only a mean TVD is guaranteed, as in --until tvd<=0.1: for "
                "other requests name one context with --context."
            )

    def look(self) -> Glance:
        """Return the run as it is now."""
        run = Run(self.folder)
        store = run.store
        counts = store.counts()
        draws, seen = int(counts.sum()), dict[str, Any]()
        if run.over_contexts:
            rounds, begun = len(store.manifest.rounds or ()), int((counts > 0).sum())
            seen = {"rounds": rounds, "contexts": len(run), "contexts_begun": begun}
            seen = {"progress": seen, **self._look_at_contexts(run, draws)}
        elif (summary := self._summary(store)) is not None:
            draws = summary.n
            seen = _chosen(curve_of(summarised_draws(store, summary)), run)
        return Glance(
            folder=self.folder,
            draws=draws,
            unfinished=max(kept_draws(store) - draws, 0),
            wanted=run.recipe.draws if run.has_recipe else None,
            per_second=speed_of(store),
            workers=store.manifest.workers,
            machines=store.manifest.machines,
            stopped=store.manifest.stopped,
            **seen,
        )

    def _look_at_contexts(self, run: Run, draws: int) -> dict[str, Any]:
        if self.context is not None:
            one = run[self.context]
            return _chosen(one.curve, run) if one.n else {}
        if draws and (self.rules or len(run) <= FEW):
            return {"whole": run.outcome.whole}
        return {}

    def _summary(self, store: Store) -> Summary | None:
        n = len(store)
        numbers = store.numbers() if n else range(0)
        known = [store.shards[i].sha256 for i in numbers[: len(self._hashes)]]
        if known != self._hashes:
            # Shards were drawn again, so the merged summary is out of date.
            self._merged, self._hashes = None, []
        last = None
        for number in numbers[len(self._hashes) :]:
            summary = shard_summary(store, number, keep=False)
            if summary is None:
                break  # rewritten after the manifest was read; the next look includes it
            if store.shards[number].draws < store.shard_size:
                last = summary
                break
            parts = [summary] if self._merged is None else [self._merged, summary]
            self._merged = Summary.merged(parts)
            self._hashes.append(store.shards[number].sha256)
        parts = [part for part in (self._merged, last) if part is not None]
        if not parts:
            return None
        whole = Summary.merged(parts)
        return whole if whole.tail_is_whole else summarise(store, keep=False)


def _chosen(curve: Curve, run: Run) -> dict[str, Any]:
    """Return a curve, and the certificate that the recipe chooses on it."""
    certificate = short = None
    if run.has_recipe:
        try:
            certificate, short = choose_beta(curve, run.recipe.choose.asked)
        except QuasirError as error:
            short = str(error)
    return {"curve": curve, "certificate": certificate, "short": short}


def speed_of(store: Store) -> float | None:
    """Return the draws per second of all workers together, from the last shards that were made."""
    timed = [shard for _, shard in sorted(store.shards.items()) if shard.seconds][-RECENT:]
    seconds = sum(shard.seconds or 0.0 for shard in timed)
    if not seconds:
        return None
    return float(sum(shard.draws for shard in timed) / seconds * (store.manifest.workers or 1))


NUMBER = r"([0-9.eE+-]+)"


def parse_stop_rule(text: str) -> Precision | Guaranteed:
    """Return the rule that a text states, such as tvd<=0.1 or ess=1000."""
    precision = re.fullmatch(rf"(ess|(.+)_se)\s*=\s*{NUMBER}", text.strip())
    guaranteed = re.fullmatch(rf"(tvd|kl)\s*<=\s*{NUMBER}", text.strip())
    match = precision or guaranteed
    try:
        value = float(match[match.lastindex or 0]) if match else -1.0
    except ValueError:
        value = -1.0
    if not value > 0:
        raise InputError(
            f"{text!r} is nothing to stop at: give a guarantee, as in tvd<=0.1, the standard error "
            "of an estimate, as in tvd_se=0.005 or moment:female_se=0.01, or an effective sample "
            "size, as in ess=1000."
        )
    if guaranteed is not None:
        return Guaranteed(guaranteed[1], value)
    assert precision is not None
    if precision[2] is None:
        return Precision("ess", least_ess=value)
    return Precision(precision[2], most=value)


@dataclass(frozen=True)
class Precision:
    """A request for the precision of an estimate, such as ``tvd_se=0.005`` or ``ess=1000``."""

    name: str
    most: float | None = None
    least_ess: float | None = None

    of_means = False
    """Whether it can be judged over all contexts together."""

    def reached(self, certificate: Certificate, curve: Curve) -> bool:
        """Return whether a certificate has this precision; a standard error of NaN has none."""
        if self.least_ess is not None:
            return certificate.ess >= self.least_ess
        assert self.most is not None
        return bool(certificate.estimate(self.name).se <= self.most)

    def describe(self, certificate: Certificate) -> str:
        """Return the precision of a certificate in words."""
        at = f"at beta = {level_text(certificate.log_beta)}, from {certificate.n:,} draws"
        if self.least_ess is not None:
            return f"the effective sample size is {certificate.ess:,.0f} {at}"
        return f"{self.name} is {certificate.estimate(self.name)} {at}"


@dataclass(frozen=True)
class Guaranteed:
    """A request for a guarantee at the recipe's beta, such as ``tvd<=0.1``.

    It is right under continuous watching, and also where the draws choose beta: the least beta at
    which the request is guaranteed is guaranteed together with all larger ones
    (docs/records/proofs.md).
    """

    name: str
    most: float

    @property
    def of_means(self) -> bool:
        """Whether it can be judged over all contexts together."""
        return self.name == "tvd"

    def reached(self, certificate: Certificate, curve: Curve) -> bool:
        """Return whether the request is guaranteed at the certificate's beta."""
        guarantee = certificate.guarantee
        if guarantee is None:
            return False
        try:
            least = curve.at(**{self.name: self.most}, confidence=guarantee.confidence)
        except UnreachableError:
            return False
        return least.log_beta <= certificate.log_beta

    def describe(self, certificate: Certificate) -> str:
        """Return the guarantee in words."""
        assert certificate.guarantee is not None
        return (
            f"{self.name} <= {self.most:g} is guaranteed (confidence "
            f"{certificate.guarantee.confidence:g}) at beta = {level_text(certificate.log_beta)}, "
            f"from {certificate.n:,} draws"
        )
