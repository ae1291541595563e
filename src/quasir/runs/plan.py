"""A plan from a pilot: the draws, hours and machines that a precision or a guarantee needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from quasir.certificates.certificate import Certificate
from quasir.certificates.choice import draws_for
from quasir.certificates.curve import tradeoff
from quasir.certificates.warnings import MIN_ABOVE, MIN_ACCEPTED, MIN_ESS
from quasir.draws.draws import Draws
from quasir.errors import InputError, QuasirError
from quasir.estimation.estimate import Z95
from quasir.estimation.quantities import QUANTITIES
from quasir.runs.stored_run import Run
from quasir.store import Store
from quasir.store.manifest import shard_name

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
    """Draws, time and space that a precision or a guarantee needs."""

    of: str  # the estimate that it is about
    se: float | None  # its standard error; None where a guarantee is planned
    share: float | None  # of the acceptance rate that the request truly costs, for a guarantee
    pilot: Certificate  # at the beta that the request asks for
    draws: Range  # in all, including the pilot's
    samples: Range  # accepted draws among them
    per_second: Range | None  # draws on one machine; None where no shard has its time recorded
    workers: int  # on each machine
    seconds: Range | None  # on one machine, for the draws that are still missing
    bytes: float  # on disk, of all draws
    warnings: list[str]

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
            "warnings": self.warnings,
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
        warnings=_warnings(
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
    """Return the draws per second on one machine, and the number of its workers."""
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


def _warnings(
    certificate: Certificate,
    *,
    store: Store,
    relative: float,
    wanted: Range,
    per_second: Range | None,
) -> list[str]:
    warnings = list(certificate.warnings)
    n = certificate.n
    if n < SMALL_PILOT:
        warnings.append(
            f"The pilot has {n:,} draws: the rare large ratios that decide the error may not "
            "be among them. Draw about 10,000 before planning."
        )
    if certificate.pareto_k > HEAVY:
        warnings.append(
            f"Pareto k is {certificate.pareto_k:.2f}, above {HEAVY}: the ratios may have no "
            "variance. Then the error falls more slowly than 1/sqrt(N), and this plan is too "
            "small. A proposal closer to the target helps more than more draws."
        )
    if not relative < 0.25:
        warnings.append(
            f"Parts of the pilot disagree on the variance (relative error {relative:.2g}): the "
            f"number of draws is known to a factor of {math.exp(min(Z95 * relative, 9.0)):.2g}. "
            "A longer pilot narrows it."
        )
    if wanted.value > 1000 * n:
        warnings.append(
            f"The plan is {wanted.value / n:,.0f} times the pilot, and does not know of events "
            f"rarer than one in {n:,} draws. Plan again after a tenth of the draws."
        )
    if per_second is None:
        warnings.append(
            f"{store.folder} does not record how long its shards took, so the hours are unknown; "
            "a run that is drawn from a recipe does."
        )
    elif sum(1 for shard in store.shards.values() if shard.seconds) < 3:
        warnings.append(
            "The speed comes from fewer than three shards, and the first one is slower: a pilot "
            "with more shards measures it better."
        )
    return warnings


SHARE = 0.75
"""A guarantee is planned for this share of the acceptance rate that the request truly costs."""


def plan_run(
    store: Store,
    request: dict[str, float],
    se: float | None = None,
    of: str | None = None,
    share: float = SHARE,
    pilot: Draws | None = None,
) -> Plan:
    """Plan a run from the draws that a store holds: for a precision, or for a guarantee.

    `pilot` are the draws of one context, in a run over contexts.
    """
    if se is None:
        return _plan_guarantee(store, request, share, pilot)
    if not 0 < se < math.inf:
        raise InputError(f"se is {se}, but must be a finite number above 0.")
    sure = request.get("confidence")
    request = {key: value for key, value in request.items() if key != "confidence"}
    name = next(iter(request))
    of = of or (name if name in QUANTITIES else "tvd")
    made = len(store) if pilot is None else len(pilot)
    pilot = pilot_draws(store) if pilot is None else pilot
    certificate = tradeoff(pilot).at(**request)
    if sure is not None:
        certificate = certificate.with_warnings(
            f"This plan is for a standard error; the confidence {sure:g} is not planned for. Plan "
            "without se for the guarantee."
        )
    now = certificate.estimate(of)
    if math.isnan(now.se):
        raise InputError(
            f"the pilot's {len(pilot):,} draws cannot tell how well {of} is known at that beta: "
            f"{certificate.warnings[0] if certificate.warnings else 'none lies above it.'}"
        )
    if now.se > se * math.sqrt(MOST_DRAWS / len(pilot)):
        raise InputError(
            f"se is {se:g}, and is {now.se:.3g} after {len(pilot):,} draws: more than "
            f"{MOST_DRAWS:.0e} draws would be needed. Ask for a larger one."
        )
    relative = _relative_error(pilot, certificate, of)
    wanted = Range.around(max(len(pilot) * (now.se / se) ** 2, 1.0), relative)
    wanted, certificate = _at_least(wanted, pilot, certificate)
    return planned(store, certificate, of, wanted, relative, made=made, se=se)


def _plan_guarantee(
    store: Store, request: dict[str, float], share: float, pilot: Draws | None
) -> Plan:
    """Plan the draws until a request is guaranteed at a share of its true acceptance rate."""
    if "confidence" not in request:
        raise InputError(
            "a plan is for a standard error (se, --se 0.005), or for a guarantee (a confidence "
            "beside tvd or kl, --tvd 0.1 --confidence 0.95): give one of them."
        )
    if not 0 < share < 1:
        raise InputError(f"share is {share:g}, but must lie between 0 and 1.")
    (name, wanted), confidence = next(iter(request.items())), request["confidence"]
    made = len(store) if pilot is None else len(pilot)
    pilot = pilot_draws(store) if pilot is None else pilot
    curve = tradeoff(pilot)
    curve.at(**request)  # says so, if it cannot be guaranteed at all
    estimated = curve.at(**{name: wanted})
    rate = share * estimated.acceptance_rate.value

    def needed(draws: Draws) -> float:
        evaluator = tradeoff(draws).evaluator
        return draws_for(evaluator, name, wanted, confidence, rate)

    draws = needed(pilot)
    if not draws < MOST_DRAWS:
        raise InputError(
            f"no number of draws guarantees {name} = {wanted:g} at {share:g} of the acceptance "
            f"rate {estimated.acceptance_rate.value:.3g}: ask for a smaller share."
        )
    parts = [needed(pilot.take(rows)) for rows in np.array_split(np.arange(len(pilot)), PARTS)]
    relative = math.inf
    if np.isfinite(parts).all():
        relative = float(np.std(parts, ddof=1) / np.mean(parts) / math.sqrt(PARTS))
    wanted_draws = Range.around(draws, relative)
    return planned(store, estimated, name, wanted_draws, relative, made=made, share=share)


@dataclass(frozen=True)
class Plans:
    """The plan of each context that can be planned for, and why the others cannot."""

    plans: dict[int, Plan]
    unplanned: dict[int, str]

    @property
    def only(self) -> Plan | None:
        """The plan, if it is for one context."""
        every = list(self.plans.values())
        return every[0] if len(every) == 1 and not self.unplanned else None

    @property
    def draws(self) -> float:
        """Draws of all contexts together."""
        return sum(plan.draws.value for plan in self.plans.values())

    @property
    def seconds(self) -> float:
        """Time on one machine for the draws that are missing; NaN if it is not known."""
        known = [plan.seconds.value for plan in self.plans.values() if plan.seconds is not None]
        return sum(known) if len(known) == len(self.plans) else math.nan

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        return {
            "draws": self.draws,
            "seconds": self.seconds if math.isfinite(self.seconds) else None,
            "contexts": {str(index): plan.to_dict() for index, plan in self.plans.items()},
            "unplanned": {str(index): why for index, why in self.unplanned.items()},
        }

    def __str__(self) -> str:
        hours = f"{self.seconds / 3600:.3g}" if math.isfinite(self.seconds) else "unknown"
        lines = [f"{len(self.plans):,} contexts: {self.draws:,.0f} draws in all, {hours} hours"]
        most = sorted(self.plans.items(), key=lambda pair: -pair[1].draws.value)[:10]
        for index, plan in most:
            lines.append(f"  context {index:<9} {plan.draws.value:,.0f} draws")
        if len(self.plans) > len(most):
            lines.append(f"  and {len(self.plans) - len(most):,} with fewer")
        for index, why in list(self.unplanned.items())[:10]:
            lines.append(f"  ! context {index}: {why}")
        if len(self.unplanned) > 10:
            lines.append(f"  ! and {len(self.unplanned) - 10:,} more cannot be planned for")
        return "\n".join(lines)


def plan_contexts(
    run: Run,
    context: int | None,
    request: dict[str, float],
    se: float | None = None,
    of: str | None = None,
    share: float = SHARE,
) -> Plans:
    """Plan for one context of a run, or for all."""
    plans, unplanned = {}, {}
    last: QuasirError | None = None
    for one in run.contexts_with_draws(context, items=False):
        try:
            pilot = one.draws if run.over_contexts else None
            plans[one.index] = plan_run(run.store, request, se, of, share, pilot)
        except QuasirError as error:
            unplanned[one.index], last = str(error), error
    if not plans and last is not None:
        raise last
    return Plans(plans, unplanned)


def _at_least(wanted: Range, pilot: Draws, certificate: Certificate) -> tuple[Range, Certificate]:
    """Return no fewer draws than an estimate needs, and the certificate that says so.

    1/sqrt(N) is a law of many draws: without some above beta, and some that are accepted, an error
    does not follow it. (A guarantee holds at any number of draws, so its plan needs none of this.)
    """
    above = int((pilot.log_ratio > certificate.log_beta).sum())
    accepted = len(pilot) * float(certificate.acceptance_rate.value)
    seen = ((MIN_ABOVE, above), (MIN_ACCEPTED, accepted), (MIN_ESS, certificate.ess))
    # Where no draw lies above beta, more of them need not show any.
    least = len(pilot) * max(need / found for need, found in seen if found)
    if wanted.value >= least:
        return wanted, certificate
    said = (
        f"By the formula {wanted.value:,.0f} draws would do, too few to estimate anything: at "
        f"least {MIN_ABOVE} should lie above beta and {MIN_ACCEPTED} be accepted, with an ESS "
        f"of {MIN_ESS}, so the plan is for {math.ceil(least):,}."
    )
    raised = Range(least, max(wanted.low, least), max(wanted.high, least))
    return raised, certificate.with_warnings(said)


def _relative_error(pilot: Draws, certificate: Certificate, of: str) -> float:
    """Return the relative standard error of the variance per draw, from the pilot's parts."""
    if len(pilot) < 2 * PARTS:
        return math.inf
    variances = []
    for rows in np.array_split(np.arange(len(pilot)), PARTS):
        try:
            (part,) = tradeoff(pilot.take(rows), log_betas=[certificate.log_beta])
        except QuasirError:
            return math.inf
        variance = part.estimate(of).se ** 2 * len(rows)
        # A part with no draw above beta sees no variance there.
        variances.append(0.0 if math.isnan(variance) else variance)
    mean = float(np.mean(variances))
    return float(np.std(variances, ddof=1) / math.sqrt(PARTS) / mean) if mean else math.inf
