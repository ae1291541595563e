"""A plan from a pilot: the draws that a standard error or a guarantee needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from quasir.certificates.certificate import Certificate
from quasir.certificates.choice import draws_for
from quasir.certificates.curve import tradeoff
from quasir.certificates.warnings import MIN_ABOVE, MIN_ACCEPTED, MIN_ESS
from quasir.core.formatting import level_text, wrapped
from quasir.draws.draws import Draws
from quasir.errors import InputError, QuasirError
from quasir.estimation.estimate import Z95
from quasir.estimation.quantities import QUANTITIES
from quasir.store import Store

PILOT = 1_000_000  # draws of the pilot that are used, at most
MOST_DRAWS = 1e18  # a plan for more draws than this is a slip
PARTS = 8  # parts that the pilot is cut into
SMALL_PILOT = 5000  # a pilot with fewer draws has probably not seen the tail
HEAVY = 0.5
"""Above this Pareto k the ratios have no variance, and errors fall more slowly than 1/sqrt(N)."""
SHARE = 0.75
"""A guarantee is planned for this share of the acceptance rate that the request truly costs."""


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

    def __str__(self) -> str:
        def rounded(x: float) -> str:  # three digits; the others are not known
            digits = 10 ** max(math.floor(math.log10(max(x, 1))) - 2, 0)
            return f"{math.ceil(x) if x < 1000 else round(x / digits) * digits:,}"

        return f"{rounded(self.value)} [{rounded(self.low)}, {rounded(self.high)}]"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Draws that a precision or a guarantee needs."""

    of: str  # the estimate that it is about
    se: float | None = None  # its standard error; None where a guarantee is planned
    share: float | None = None  # of the acceptance rate that the request truly costs
    pilot: Certificate  # at the beta that the request asks for
    draws: Range  # in all, including the pilot's
    warnings: list[str]

    @property
    def samples(self) -> Range:
        """Accepted draws among them."""
        return self.draws.times(float(self.pilot.acceptance_rate.value) * (self.share or 1.0))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        ranges = {"draws": vars(self.draws), "samples": vars(self.samples)}
        return vars(self) | {"pilot": self.pilot.to_dict(), **ranges}

    def __str__(self) -> str:
        pilot = self.pilot
        beta, rate = level_text(pilot.log_beta), pilot.acceptance_rate.value
        lines = [
            f"{self.of} guaranteed at {self.share:g} of the acceptance rate that it truly costs"
            if self.se is None
            else f"{self.of} to a standard error of {self.se:g}",
            f"  {'pilot':<19} {pilot.n:,} draws: {self.of} {pilot.estimate(self.of)}",
            f"  {'beta':<19} {beta}, acceptance rate {rate:.3g}",
            f"  {'draws':<19} {self.draws}",
            f"  {'samples among them':<19} {self.samples}",
        ]
        for warning in self.warnings:
            lines += wrapped(f"! {warning}", "  ", "    ")
        return "\n".join(lines)


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


def plan_run(
    pilot: Draws,
    request: dict[str, float],
    se: float | None = None,
    of: str | None = None,
    share: float = SHARE,
) -> Plan:
    """Plan the draws of a run from those of a pilot: for a standard error, or for a guarantee."""
    if se is None:
        return _plan_guarantee(pilot, request, share)
    if not 0 < se < math.inf:
        raise InputError(f"se is {se}, but must be a finite number above 0.")
    sure = request.get("confidence")
    request = {key: value for key, value in request.items() if key != "confidence"}
    name = next(iter(request))
    of = of or (name if name in QUANTITIES else "tvd")
    certificate = tradeoff(pilot).at(**request)
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

    def variance(draws: Draws) -> float:
        (part,) = tradeoff(draws, log_betas=[certificate.log_beta])
        found = part.estimate(of).se ** 2 * len(draws)
        return 0.0 if math.isnan(found) else found  # no draw above beta: no variance is seen

    relative = _relative_error(pilot, variance)
    wanted = Range.around(max(len(pilot) * (now.se / se) ** 2, 1.0), relative)
    warnings = []
    if sure is not None:
        warnings.append(
            f"This plan is for a standard error; the confidence {sure:g} is not planned for. Plan "
            "without se for the guarantee."
        )
    if (least := _least(pilot, certificate)) > wanted.value:
        warnings.append(
            f"By the formula {wanted.value:,.0f} draws would do, too few to estimate anything: at "
            f"least {MIN_ABOVE} should lie above beta and {MIN_ACCEPTED} be accepted, with an ESS "
            f"of {MIN_ESS}, so the plan is for {math.ceil(least):,}."
        )
        wanted = Range(least, max(wanted.low, least), max(wanted.high, least))
    warnings += _warnings(certificate, relative, wanted)
    return Plan(of=of, se=se, pilot=certificate, draws=wanted, warnings=warnings)


def _plan_guarantee(pilot: Draws, request: dict[str, float], share: float) -> Plan:
    """Plan the draws until a request is guaranteed at a share of its true acceptance rate."""
    if "confidence" not in request:
        raise InputError(
            "a plan is for a standard error (se, --se 0.005), or for a guarantee (a confidence "
            "beside tvd or kl, --tvd 0.1 --confidence 0.95): give one of them."
        )
    if not 0 < share < 1:
        raise InputError(f"share is {share:g}, but must lie between 0 and 1.")
    (name, wanted), confidence = next(iter(request.items())), request["confidence"]
    curve = tradeoff(pilot)
    curve.at(**request)  # says so, if it cannot be guaranteed at all
    estimated = curve.at(**{name: wanted})
    rate = share * estimated.acceptance_rate.value

    def needed(draws: Draws) -> float:
        return draws_for(tradeoff(draws).evaluator, name, wanted, confidence, rate)

    if not (draws := needed(pilot)) < MOST_DRAWS:
        raise InputError(
            f"no number of draws guarantees {name} = {wanted:g} at {share:g} of the acceptance "
            f"rate {estimated.acceptance_rate.value:.3g}: ask for a smaller share."
        )
    relative = _relative_error(pilot, needed)
    in_all = Range.around(draws, relative)
    warnings = _warnings(estimated, relative, in_all)
    return Plan(of=name, share=share, pilot=estimated, draws=in_all, warnings=warnings)


def _relative_error(pilot: Draws, figure: Callable[[Draws], float]) -> float:
    """Return the relative standard error of a figure of the pilot, from those of its parts."""
    if len(pilot) < 2 * PARTS:
        return math.inf
    try:
        parts = [figure(pilot.take(rows)) for rows in np.array_split(np.arange(len(pilot)), PARTS)]
    except QuasirError:
        return math.inf
    mean = float(np.mean(parts))
    if not 0 < mean < math.inf:
        return math.inf
    return float(np.std(parts, ddof=1) / math.sqrt(PARTS) / mean)


def _least(pilot: Draws, certificate: Certificate) -> float:
    """Return the fewest draws that an estimate needs.

    1/sqrt(N) holds for many draws: without some above beta, and some that are accepted, an error
    does not follow it. (A guarantee holds at any number of draws, so its plan needs none of this.)
    """
    above = int((pilot.log_ratio > certificate.log_beta).sum())
    accepted = len(pilot) * float(certificate.acceptance_rate.value)
    seen = ((MIN_ABOVE, above), (MIN_ACCEPTED, accepted), (MIN_ESS, certificate.ess))
    # Where no draw lies above beta, more of them need not show any.
    return len(pilot) * max(need / found for need, found in seen if found)


def _warnings(certificate: Certificate, relative: float, wanted: Range) -> list[str]:
    warnings, n = list(certificate.warnings), certificate.n
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
    return warnings
