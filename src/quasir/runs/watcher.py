"""Watching a run while it draws: how far, how fast, and the trade-off so far.

Nothing is locked and nothing is written: the manifest is read again, and each new shard in it is
summarised once. Only the draws before the first missing shard are used: which shards finish first
may depend on their draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quasir.certificates.certificate import Certificate
from quasir.certificates.curve import Curve
from quasir.certificates.tradeoff import curve_of, summary_basis
from quasir.errors import QuasirError
from quasir.estimation.summary import Summary
from quasir.estimation.summary_cache import shard_summary, summarise
from quasir.recipes.schema import Recipe
from quasir.runs.integrity import read_checked
from quasir.runs.outcome import choose_beta
from quasir.store import Store

__all__ = ["Glance", "Watcher", "speed_of"]

RECENT = 16
"""The speed is measured on so many of the last shards."""


@dataclass(frozen=True, kw_only=True)
class Glance:
    """A run at one moment.

    Attributes
    ----------
    draws : int
        Draws before the first missing shard.
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
        return max(self.wanted - self.draws, 0) / self.per_second

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        curve = self.curve
        return {
            "run": str(self.folder),
            "draws": self.draws,
            "wanted": self.wanted,
            "draws_per_second": self.per_second,
            "seconds_left": self.seconds_left,
            "workers": self.workers,
            "machines": self.machines,
            "stopped": self.stopped,
            "ess": None if curve is None else curve.ess,
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
            "short": self.short,
            "doubts": [] if curve is None else curve.doubts,
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
            curve = curve_of(summary_basis(store, summary))
            if recipe is not None:
                certificate, short = _chosen(curve, recipe)
        return Glance(
            folder=self.folder,
            draws=0 if summary is None else summary.n,
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
        return choose_beta(curve, recipe.choose.wish)
    except QuasirError as error:
        return None, str(error)
