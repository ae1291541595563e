"""A plan: the draws, hours and machines that so many draws need, and what is doubtful about it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from quasir.certificates.certificate import Certificate
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.estimation.estimate import Z95
from quasir.store import Store
from quasir.store.manifest import shard_name

__all__ = ["MOST_DRAWS", "PARTS", "Plan", "Range", "pilot_draws", "planned"]

PILOT = 1_000_000
"""Draws of the pilot that are used, at most."""
MOST_DRAWS = 1e18
"""A plan for more draws than this is a slip."""
PARTS = 8
"""Parts that the pilot is cut into."""
SMALL_PILOT = 5000
"""A pilot with fewer draws has probably not seen the tail."""
HEAVY = 0.5
"""Above this Pareto k the ratios have no variance, and errors fall more slowly than 1/sqrt(N)."""


@dataclass(frozen=True)
class Range:
    """A number with a 95 % range."""

    value: float
    low: float
    high: float

    @classmethod
    def around(cls, value: float, relative: float) -> Range:
        """Return the range of a positive number with this relative standard error."""
        factor = math.exp(min(Z95 * relative, 50.0))
        return cls(value, value / factor, value * factor)

    def times(self, number: float) -> Range:
        """Return the range of a multiple."""
        return Range(self.value * number, self.low * number, self.high * number)

    def to_dict(self) -> dict[str, float]:
        """Return a JSON-ready dictionary."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Draws, time and space that a precision needs.

    Attributes
    ----------
    of : str
        The estimate whose standard error is wished for.
    se : float or None
        That standard error; None where a promise is planned.
    share : float or None
        For a promise: the acceptance rate of the promised beta, as a share of the one that the
        wish would cost if everything were known.
    pilot : Certificate
        The pilot's certificate at the beta that the wish asks for.
    draws : Range
        Draws in all, including the pilot's.
    samples : Range
        Accepted draws among them.
    per_second : Range or None
        Draws a second on one machine; None where no shard has its time recorded.
    workers : int
        Workers on each machine.
    seconds : Range or None
        Time on one machine for the draws that are still missing.
    bytes : float
        Size on disk of all draws.
    doubts : list of str
    """

    of: str
    se: float | None
    share: float | None
    pilot: Certificate
    draws: Range
    samples: Range
    per_second: Range | None
    workers: int
    seconds: Range | None
    bytes: float
    doubts: list[str]

    def machines_for(self, hours: float) -> int | None:
        """Return how many machines finish within the time, by the upper end of the range."""
        if not 0 < hours < math.inf:
            raise InputError(f"hours is {hours}, but must be a finite number above 0.")
        if self.seconds is None or not math.isfinite(needed := self.seconds.high / (3600 * hours)):
            return None
        return max(1, math.ceil(needed))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        return {
            "of": self.of,
            "se": self.se,
            "share": self.share,
            "pilot": self.pilot.to_dict(),
            "draws": self.draws.to_dict(),
            "samples": self.samples.to_dict(),
            "draws_per_second": None if self.per_second is None else self.per_second.to_dict(),
            "workers": self.workers,
            "seconds": None if self.seconds is None else self.seconds.to_dict(),
            "bytes": self.bytes,
            "doubts": self.doubts,
        }


def planned(
    store: Store,
    certificate: Certificate,
    of: str,
    wanted: Range,
    relative: float,
    *,
    made: int,
    se: float | None = None,
    share: float | None = None,
) -> Plan:
    """Return the plan for so many draws, of which `made` are made."""
    rate = certificate.acceptance_rate.value * (share or 1.0)
    per_second, workers = _speed(store)
    still = Range(*(max(end - made, 0.0) for end in (wanted.value, wanted.low, wanted.high)))
    seconds = None
    if per_second is not None:
        seconds = Range(
            still.value / per_second.value,
            still.low / per_second.high,
            still.high / per_second.low,
        )
    size = sum(store.location.identity(shard_name(i))[0] for i in store.numbers())
    return Plan(
        of=of,
        se=se,
        share=share,
        pilot=certificate,
        draws=wanted,
        samples=wanted.times(rate),
        per_second=per_second,
        workers=workers,
        seconds=seconds,
        bytes=wanted.value * size / len(store),
        doubts=_doubts(
            certificate, store=store, relative=relative, wanted=wanted, per_second=per_second
        ),
    )


def pilot_draws(store: Store) -> Draws:
    """Return the first draws, without items; raise `StoreError` for a damaged shard."""
    import pyarrow as pa

    parts, damaged = [], []
    for number in store.numbers()[: max(PILOT // store.shard_size, 1)]:
        try:
            parts.append(Draws.of_shard(store, number, items=False))
        except (OSError, pa.ArrowException):
            damaged.append(number)
    store.refuse(damaged)
    return Draws.concatenate(parts)


def _speed(store: Store) -> tuple[Range | None, int]:
    """Return the draws a second on one machine, and the number of its workers."""
    machines = max(store.manifest.machines or 1, 1)
    workers = max(round((store.manifest.workers or 1) / machines), 1)
    timed = [shard for shard in store.shards.values() if shard.seconds]
    if not timed:
        return None, workers
    speeds = np.array([shard.draws / (shard.seconds or math.nan) for shard in timed])
    total = sum(shard.draws for shard in timed) / sum(shard.seconds or 0.0 for shard in timed)
    relative = 0.5  # a guess, since one shard shows no spread
    if len(timed) > 1:
        relative = float(speeds.std(ddof=1) / math.sqrt(len(timed)) / speeds.mean())
    return Range.around(total * workers, relative), workers


def _doubts(
    certificate: Certificate,
    *,
    store: Store,
    relative: float,
    wanted: Range,
    per_second: Range | None,
) -> list[str]:
    doubts = list(certificate.doubts)
    n = certificate.n
    if n < SMALL_PILOT:
        doubts.append(
            f"The pilot has {n:,} draws: the rare large ratios that decide the error may not "
            "be among them. Draw about 10,000 before planning."
        )
    if certificate.pareto_k > HEAVY:
        doubts.append(
            f"Pareto k is {certificate.pareto_k:.2f}, above {HEAVY}: the ratios may have no "
            "variance. Then the error falls more slowly than 1/sqrt(N), and this plan is too "
            "small. A proposal closer to the target helps more than more draws."
        )
    if not relative < 0.25:
        doubts.append(
            f"Parts of the pilot disagree on the variance (relative error {relative:.2g}): the "
            f"number of draws is known to a factor of {math.exp(min(Z95 * relative, 9.0)):.2g}. "
            "A longer pilot narrows it."
        )
    if wanted.value > 1000 * n:
        doubts.append(
            f"The plan is {wanted.value / n:,.0f} times the pilot, and does not know of events "
            f"rarer than one in {n:,} draws. Plan again after a tenth of the draws."
        )
    if per_second is None:
        doubts.append(
            f"{store.folder} does not record how long its shards took, so the hours are unknown; "
            "a run that is drawn from a recipe does."
        )
    elif sum(1 for shard in store.shards.values() if shard.seconds) < 3:
        doubts.append(
            "The speed comes from fewer than three shards, and the first one is slower: a pilot "
            "with more shards measures it better."
        )
    return doubts
