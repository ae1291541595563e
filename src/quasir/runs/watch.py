"""Watching a run while it draws, and the rules that stop it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quasir.certificates.certificate import Certificate
from quasir.certificates.curve import Curve, curve_of, summarised_draws
from quasir.core.formatting import level_text
from quasir.errors import InputError, QuasirError, UnreachableError
from quasir.estimation.estimate import Estimate
from quasir.estimation.summary import Summary, shard_summary, summarise
from quasir.recipes.schema import Recipe
from quasir.runs.integrity import read_checked
from quasir.runs.outcome import choose_beta
from quasir.runs.shard_work import kept_draws
from quasir.store import Store

RECENT = 16
"""The speed is measured on so many of the last shards."""


@dataclass(frozen=True, kw_only=True)
class Glance:
    """A run at one moment.

    Attributes
    ----------
    draws : int
        Draws before the first missing shard.
    unfinished : int
        Draws behind the first missing shard, and in shards under way: no estimate uses them yet.
    wanted : int or None
        Draws in all that the recipe asks for.
    per_second : float or None
        Draws a second of all workers together, measured on the last shards.
    workers, machines : int or None
    stopped : str or None
        Why the drawing was stopped, if it was.
    curve : Curve or None
    certificate : Certificate or None
        The certificate at the beta that the recipe chooses, or at the closest one.
    short : str or None
        Why it is only the closest one.
    """

    folder: Path
    draws: int
    unfinished: int
    wanted: int | None
    per_second: float | None
    workers: int | None
    machines: int | None
    stopped: str | None
    curve: Curve | None
    certificate: Certificate | None
    short: str | None

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

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        curve = self.curve
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
        }


class Watcher:
    """Looks at a run again and again; reads each shard once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._merged: Summary | None = None
        self._hashes: list[str] = []

    def look(self) -> Glance:
        """Return the run as it is now."""
        store = Store.open(self.folder)
        recipe = _recipe(self.folder, store)
        summary = self._summary(store)
        curve = certificate = short = None
        if summary is not None:
            curve = curve_of(summarised_draws(store, summary))
            if recipe is not None:
                certificate, short = _chosen(curve, recipe)
        draws = 0 if summary is None else summary.n
        return Glance(
            folder=self.folder,
            draws=draws,
            unfinished=max(kept_draws(store) - draws, 0),
            wanted=None if recipe is None else recipe.draws,
            per_second=speed_of(store),
            workers=store.manifest.workers,
            machines=store.manifest.machines,
            stopped=store.manifest.stopped,
            curve=curve,
            certificate=certificate,
            short=short,
        )

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


def speed_of(store: Store) -> float | None:
    """Return the draws a second of all workers together, from the last shards in the manifest."""
    timed = [shard for _, shard in sorted(store.shards.items()) if shard.seconds][-RECENT:]
    seconds = sum(shard.seconds or 0.0 for shard in timed)
    if not seconds:
        return None
    return float(sum(shard.draws for shard in timed) / seconds * (store.manifest.workers or 1))


def _recipe(folder: Path, store: Store) -> Recipe | None:
    return read_checked(folder, store) if (folder / "recipe.yaml").exists() else None


def _chosen(curve: Curve, recipe: Recipe) -> tuple[Certificate | None, str | None]:
    try:
        return choose_beta(curve, recipe.choose.asked)
    except QuasirError as error:
        return None, str(error)


NUMBER = r"([0-9.eE+-]+)"


def until(text: str) -> Precision | Guaranteed:
    """Return the request that a text states."""
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

    def reached(self, certificate: Certificate, curve: Curve) -> bool:
        """Return whether a certificate has this precision; a standard error of NaN has none."""
        if self.least_ess is not None:
            return certificate.ess >= self.least_ess
        assert self.most is not None
        return bool(self._estimate(certificate).se <= self.most)

    def describe(self, certificate: Certificate) -> str:
        """Return the precision of a certificate in words."""
        at = f"at beta = {level_text(certificate.log_beta)}, from {certificate.n:,} draws"
        if self.least_ess is not None:
            return f"the effective sample size is {certificate.ess:,.0f} {at}"
        return f"{self.name} is {self._estimate(certificate)} {at}"

    def _estimate(self, certificate: Certificate) -> Estimate:
        return certificate.estimate(self.name)


@dataclass(frozen=True)
class Guaranteed:
    """A request for a guarantee at the recipe's beta, such as ``tvd<=0.1``.

    It is right under continuous watching, and also where the draws choose beta: the least beta at
    which the request is guaranteed is guaranteed together with all larger ones
    (docs/guarantees.md).
    """

    name: str
    most: float

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
