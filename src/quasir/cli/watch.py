"""`quasir watch`: show a run while it draws, and stop it when it is known well enough."""

from __future__ import annotations

import json as jsonlib
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.live import Live
from rich.text import Text
from typer import Option

from quasir import recipes
from quasir.certificates.certificate import Certificate
from quasir.certificates.contexts_certificate import ContextsCertificate
from quasir.certificates.curve import Curve, curve_of, summarised_draws
from quasir.certificates.figures import curve_text
from quasir.cli.bar import clock, say
from quasir.cli.options import ContextNumber, Json, RunFolder, finite, opened
from quasir.core.formatting import level_text, rounded_up
from quasir.errors import InputError, QuasirError, UnreachableError
from quasir.estimation.summary import Summary, shard_summary, summarise
from quasir.runs.draw_shards import kept_draws
from quasir.runs.integrity import command
from quasir.runs.sampling import choose_beta
from quasir.runs.stored_run import Run
from quasir.store import Store
from quasir.store.control import ask_to_stop, holder_ended

__all__ = ["watch"]

RECENT = 16  # shards, the last ones, that the speed is measured on
FEW = 200  # contexts up to which what holds over all is computed unasked: it takes seconds
RULE = re.compile(r"(?:(?P<least>ess|(?P<error>.+)_se)\s*=|(?P<most>tvd|kl)\s*<=)\s*([0-9.eE+-]+)")


def watch(
    run: RunFolder,
    until: Annotated[
        list[str] | None,
        Option(help="Stop the run at a guarantee, tvd<=0.1, or a precision, tvd_se=0.005."),
    ] = None,
    every: Annotated[
        float, Option(min=0.1, max=86_400, help="Seconds between two looks.", callback=finite)
    ] = 5.0,
    once: Annotated[bool, Option("--once", help="Look once, and stop.")] = False,
    context: ContextNumber = None,
    json: Json = False,
) -> None:
    """Show a run while it draws, and its trade-off so far.

    This command only reads; another process draws. With --until it asks that process to stop when a
    distance is guaranteed at the recipe's beta (tvd<=0.1, kl<=0.05), or when an estimate there is
    precise enough (tvd_se=0.005, moment:female_se=0.01, ess=1000); if there are several requests,
    all must be met. A guarantee is right however often you look. Of a run over contexts it shows
    one (--context) or all; tvd<=0.1 is then the mean TVD. With --json, it prints a line for each
    look.

    Example: quasir watch runs/scientists --until "tvd<=0.12"
    """
    opened(run, context)
    rules = [parse_stop_rule(text) for text in until or []]
    watcher = Watcher(run, context, rules)
    console = Console()
    live = Live(console=console, auto_refresh=False) if console.is_terminal and not json else None
    shown = -1
    try:
        if live is not None:
            live.start()
        while True:
            # Ask first whether the run has ended, so that its last shard is not missed.
            ended = holder_ended(run)
            glance = watcher.look()
            why = glance.reached(rules)
            over = ended or glance.complete or glance.stopped is not None
            there = glance.draws + glance.unfinished
            if live is not None:
                live.update(Text(str(glance)), refresh=True)
            elif there != shown:
                shown = there
                print(jsonlib.dumps(glance.to_dict()) if json else glance, flush=True)
            if why is not None and not over:
                ask_to_stop(run, why)
            if once or why is not None or over:
                break
            time.sleep(every)
    finally:
        if live is not None:
            live.stop()
    if why is not None:
        say(f"as requested: {why}" + ("" if over else "; the run ends after the present shard"))
    elif glance.complete:
        say("all draws are there")
    elif glance.stopped:
        say(f"the run was stopped: {glance.stopped}")
    elif ended and not once:
        recipe = recipes.read_run(run) if (run / "recipe.yaml").is_file() else None
        say(f"the run has stopped; resume with `{command('draw', run, recipe=recipe)}`")


@dataclass(frozen=True, kw_only=True)
class Glance:
    """A run at one moment."""

    run: Path
    draws: int  # before the first missing shard
    unfinished: int  # behind it, and in shards under way: no estimate uses them yet
    wanted: int | None  # in all, by the recipe
    draws_per_second: float | None  # of all workers together, measured on the last shards
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
        return self.wanted is not None and self.draws >= self.wanted

    @property
    def seconds_left(self) -> float | None:
        if self.wanted is None or not self.draws_per_second:
            return None
        return max(self.wanted - self.draws - self.unfinished, 0) / self.draws_per_second

    def reached(self, rules: Sequence[Rule]) -> str | None:
        """Return in words what is reached if all rules are met, else None."""
        if not rules:
            return None
        if self.whole is not None:
            guarantee = self.whole.guarantee
            if guarantee is None or any(guarantee.tvd > rule.value for rule in rules):
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
        said = [rule.reached(certificate, curve) for rule in rules]
        return "; ".join(filter(None, said)) if all(said) else None

    def to_dict(self) -> dict[str, Any]:
        content = vars(self) | {"run": str(self.run), "seconds_left": self.seconds_left}
        curve, whole = content.pop("curve"), content.pop("whole")
        if (progress := content.pop("progress")) is not None:
            content |= {**progress, "whole": None if whole is None else whole.to_dict()}
        return content | {
            "ess": None if curve is None else curve.ess,
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
            "warnings": [] if curve is None else curve.warnings,
        }

    def __str__(self) -> str:
        of = "" if self.wanted is None else f" of {self.wanted:,}"
        line = f"{self.run}: {self.draws:,}{of} draws"
        if self.unfinished:
            line += f" and {self.unfinished:,} in unfinished shards"
        if self.draws_per_second:
            line += f", {self.draws_per_second:,.0f}/s by {self.workers or 1} workers"
            if (self.machines or 1) > 1:
                line += f" on {self.machines} machines"
        if self.seconds_left is not None and not self.complete:
            line += f", {clock(self.seconds_left)} left"
        over, curve = self.progress, self.curve
        parts = [
            line,
            over
            and "round {rounds}; {contexts_begun:,} of {contexts:,} contexts have draws".format(
                **over
            ),
            self.whole,
            curve and curve_text(curve, rows=5),
            self.certificate,
        ]
        return "\n".join(str(part) for part in parts if part is not None)


class Watcher:
    """Looks at a run, or at one of its contexts, again and again; reads each shard once."""

    def __init__(
        self, folder: Path, context: int | None = None, rules: Sequence[Rule] = ()
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
        elif run.over_contexts and any((rule.kind, rule.name) != ("most", "tvd") for rule in rules):
            raise InputError(
                "over all contexts only a mean TVD is guaranteed, as in --until tvd<=0.1: for "
                "other requests name one context with --context."
            )

    def look(self) -> Glance:
        run = Run(self.folder)
        store, counts = run.store, run.store.counts()
        draws, seen = int(counts.sum()), dict[str, Any]()
        if run.over_contexts:
            if self.context is not None:
                one = run[self.context]
                seen = _chosen(one.curve, run) if one.n else {}
            elif draws and (self.rules or len(run) <= FEW):
                seen = {"whole": run.outcome.whole}
            begun, rounds = int((counts > 0).sum()), len(store.manifest.rounds or ())
            seen["progress"] = {"rounds": rounds, "contexts": len(run), "contexts_begun": begun}
        elif (summary := self._summary(store)) is not None:
            draws = summary.n
            seen = _chosen(curve_of(summarised_draws(store, summary)), run)
        return Glance(
            run=self.folder,
            draws=draws,
            unfinished=max(kept_draws(store) - draws, 0),
            wanted=run.recipe.draws if run.has_recipe else None,
            draws_per_second=speed_of(store),
            workers=store.manifest.workers,
            machines=store.manifest.machines,
            stopped=store.manifest.stopped,
            **seen,
        )

    def _summary(self, store: Store) -> Summary | None:
        numbers = store.numbers() if len(store) else range(0)
        known = [store.shards[i].sha256 for i in numbers[: len(self._hashes)]]
        if known != self._hashes:
            # Shards were drawn again, so the merged summary is out of date.
            self._merged, self._hashes = None, []
        whole = self._merged
        for number in numbers[len(self._hashes) :]:
            summary = shard_summary(store, number, keep=False)
            if summary is None:
                break  # rewritten after the manifest was read; the next look includes it
            whole = Summary.merged([summary] if whole is None else [whole, summary])
            if store.shards[number].draws < store.shard_size:
                break
            self._merged = whole
            self._hashes.append(store.shards[number].sha256)
        return whole if whole is None or whole.tail_is_whole else summarise(store, keep=False)


def _chosen(curve: Curve, run: Run) -> dict[str, Any]:
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
    workers = store.manifest.workers or 1
    return sum(shard.draws for shard in timed) / seconds * workers if seconds else None


@dataclass(frozen=True)
class Rule:
    """What a run is stopped at: a guarantee ("most"), an "error" of an estimate, or an "ess"."""

    kind: str
    name: str
    value: float

    def reached(self, certificate: Certificate, curve: Curve) -> str | None:
        at = f"at beta = {level_text(certificate.log_beta)}, from {certificate.n:,} draws"
        if self.kind == "ess":
            said, met = f"the effective sample size is {certificate.ess:,.0f} {at}", certificate.ess
            return said if met >= self.value else None
        if self.kind == "error":
            estimate = certificate.estimate(self.name)  # a standard error of NaN reaches nothing
            return f"{self.name} is {estimate} {at}" if estimate.se <= self.value else None
        if (guarantee := certificate.guarantee) is None:
            return None
        # Where the draws choose beta, the least one at which the request is guaranteed is
        # guaranteed together with all larger ones (docs/records/proofs.md).
        try:
            least = curve.at(**{self.name: self.value}, confidence=guarantee.confidence)
        except UnreachableError:
            return None
        if least.log_beta > certificate.log_beta:
            return None
        sure = f"(confidence {guarantee.confidence:g})"
        return f"{self.name} <= {self.value:g} is guaranteed {sure} {at}"


def parse_stop_rule(text: str) -> Rule:
    """Return the rule that a text states, such as tvd<=0.1 or ess=1000."""
    match = RULE.fullmatch(text.strip())
    try:
        value = float(match[4]) if match else -1.0
    except ValueError:
        value = -1.0
    if match is None or not value > 0:
        raise InputError(
            f"{text!r} is nothing to stop at: give a guarantee (tvd<=0.1), a standard error "
            "(tvd_se=0.005, moment:female_se=0.01) or an effective sample size (ess=1000)."
        )
    kind = next((kind for kind in ("most", "error") if match[kind]), "ess")
    return Rule(kind, match[kind] if kind != "ess" else kind, value)
