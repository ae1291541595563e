"""Samples from stored draws, and a check of the certificate by their moments (the paper's own).

For a beta fixed before the draws, the first n that it accepts are i.i.d. from p_beta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from quasir.certificates.certificate import MAX_Z, Certificate, Check, Choice
from quasir.certificates.choice import certificate_at
from quasir.certificates.curve import Curve, tradeoff
from quasir.core.items import concatenate
from quasir.draws.acceptance import log_acceptance
from quasir.draws.draws import Draws
from quasir.errors import InputError, UnreachableError
from quasir.samplers.base import budget_exceeded, fields_at_beta
from quasir.samplers.results import Samples
from quasir.store import Store

Source: TypeAlias = Draws | Store
"""Draws in memory, or those on disk, which are read shard by shard."""


@dataclass(frozen=True, eq=False)
class Sampled:
    """Samples with the index of each among the draws, the certificate, and the checks.

    The certificate is computed from all draws, including those that were added.
    """

    certificate: Certificate
    samples: Samples
    index: NDArray[np.intp]
    checks: tuple[Check, ...]

    def with_warnings(self, *warnings: str) -> Sampled:
        """Return a copy with these warnings added to the certificate."""
        return replace(self, certificate=self.certificate.with_warnings(*warnings))

    def __str__(self) -> str:
        samples = self.samples
        lines = [f"{len(samples):,} samples from the first {samples.proposals:,} draws"]
        if self.checks:
            lines[0] += ":"
            lines.append(f"  {'moment of':<20} {'on the samples':>20} {'predicted':>20} {'z':>6}")
        for check in self.checks:
            z = f"{check.z:.1f}" if math.isfinite(check.z) else "-"
            seen = _with_error(check.observed, check.observed_se)
            predicted = _with_error(check.predicted, check.predicted_se)
            lines.append(f"  {check.name[:20]:<20} {seen:>20} {predicted:>20} {z:>6}")
        lines += [f"  ! {warning}" for warning in warnings_of(self.checks)]
        return "\n".join(lines)


def _with_error(value: float, error: float) -> str:
    return f"{value:.4g} ± {error:.2g}" if math.isfinite(error) else f"{value:.4g}"


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


def sample_run(
    source: Source,
    certificate: Certificate,
    n: int,
    more: Callable[[int], Source] | None = None,
    max_proposals: int | None = None,
) -> Sampled:
    """Return the first n draws that beta accepts, by a certificate from these draws.

    Where they are too few, `more` is called with a number of draws and returns that many in all, up
    to `max_proposals`, beyond which `BudgetExceeded` is raised with the samples; without it there
    are fewer samples. The added draws may widen the bins of a streamed curve: beta then moves to
    the nearest bin edge that remains, and the certificate is the one at that beta.
    """
    found = _find(source, certificate, n)
    while len(found.index) < n and more is not None:
        if max_proposals is not None and len(source) >= max_proposals:
            raise budget_exceeded(found.samples(source, certificate), n, len(source), what="draws")
        # 5 % more than expected, but at most 8 times the present draws, since the rate is a guess.
        rate = max(len(found.index), 1) / len(source)
        wanted = min(math.ceil(1.05 * n / rate), 8 * len(source))
        source = more(min(wanted, max_proposals or wanted))
        stream = True if isinstance(source, Store) else None
        assert certificate.guarantee is not None
        certificate = certificate_at(
            tradeoff(source, stream=stream).evaluator,
            certificate.log_beta,
            certificate.guarantee.confidence,
            certificate.choice,
        )
        found = _find(source, certificate, n)
    samples = found.samples(source, certificate)
    return Sampled(certificate, samples, found.index, compared(samples, certificate, found.sums))


@dataclass(frozen=True)
class _Found:
    """Accepted draws, their indices in the run, and the sums over all draws that were read."""

    draws: Draws
    index: NDArray[np.intp]
    sums: AcceptanceSums

    def samples(self, source: Source, certificate: Certificate) -> Samples:
        """Return them as samples; of draws on disk, their items are read now."""
        kept = self.draws
        if isinstance(source, Store):
            shard, row = np.divmod(self.index, source.shard_size)
            numbers = np.unique(shard).tolist()
            parts = [source.items_of(number, row[shard == number]) for number in numbers]
            if parts and parts[0] is not None:
                kept = replace(kept, items=concatenate(parts))
        if kept.items is None and len(self.index):
            raise InputError(
                f"the {len(source):,} draws were kept without their items, so there is nothing to "
                "sample from: keep the items too, or look at the trade-off only."
            )
        proposals = int(self.index[-1]) + 1 if len(self.index) else len(source)
        log_z = float(certificate.log_z_beta.value)
        fields = fields_at_beta(kept, proposals, certificate.log_beta, log_z)
        return Samples(**fields | {"items": [] if kept.items is None else kept.items})


def _find(source: Source, certificate: Certificate, n: int) -> _Found:
    """Find the first n accepted draws; on disk, no more shards are read than needed."""
    if isinstance(source, Draws):
        index = source.accepted(log_beta=certificate.log_beta)[:n]
        return _Found(source.take(index), index, AcceptanceSums.of(source, certificate))
    found, left = list[_Found](), n
    for number in source.numbers():
        own = _find(Draws.of_shard(source, number, items=False), certificate, left)
        found.append(replace(own, index=own.index + number * source.shard_size))
        left -= len(own.index)
        if not left:
            break
    return _Found(
        Draws.concatenate([one.draws for one in found]),
        np.concatenate([one.index for one in found]),
        reduce(add, (one.sums for one in found)),
    )


@dataclass(frozen=True)
class AcceptanceSums:
    """Sums over n draws of their chance r = min(1, P/(beta q)) to be accepted.

    With d the distance of a feature from the certificate's moment:
    """

    n: int
    r: float  # of r
    by_chance: dict[str, float]  # of r (1 - r) d^2, for each feature
    squared: dict[str, float]  # of r^2 d^2

    @classmethod
    def of(cls, draws: Draws, certificate: Certificate) -> AcceptanceSums:
        """Return the sums over some draws."""
        log_r = log_acceptance(draws.log_ratio, certificate.log_beta)
        possible = log_r > -np.inf
        r = np.exp(log_r[possible])
        by_chance, squared = {}, {}
        for name, moment in certificate.moments.items():
            d = np.asarray(draws.features[name], np.float64)[possible] - float(moment.value)
            by_chance[name] = float((r * (1.0 - r) * d**2).sum())
            squared[name] = float((r**2 * d**2).sum())
        return cls(len(draws), float(r.sum()), by_chance, squared)

    def __add__(self, other: AcceptanceSums) -> AcceptanceSums:
        return AcceptanceSums(
            self.n + other.n,
            self.r + other.r,
            {name: part + other.by_chance[name] for name, part in self.by_chance.items()},
            {name: part + other.squared[name] for name, part in self.squared.items()},
        )


def compared(samples: Samples, certificate: Certificate, sums: AcceptanceSums) -> tuple[Check, ...]:
    """Compare the samples' moments with the certificate's.

    Notes
    -----
    Both come from the same draws. Let r = min(1, P/(beta q)) be a draw's chance to be accepted, a
    be 1 if it was accepted and 0 if not, and d = phi - mu. To first order the difference of the two
    means is the mean of (a - r) d/AR, plus the mean of r d/AR over the draws that only one of them
    used. If the certificate used N draws, and the samples are among the first m, its variance is
    (E[r (1 - r) d^2]/m + E[r^2 d^2] |1/m - 1/N|)/AR^2.
    """
    m, n = samples.proposals, len(samples)
    checks: list[Check] = []
    rate = sums.r / sums.n
    for name, moment in certificate.moments.items():
        column = np.asarray(samples.features[name], np.float64)
        observed = float(column.mean()) if n else math.nan
        spread = float(column.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
        predicted, se = float(moment.value), float(moment.se)
        by_chance = sums.by_chance[name] / sums.n / m
        unshared = sums.squared[name] / sums.n * abs(1.0 / m - 1.0 / certificate.n)
        spread_of_difference = math.sqrt(by_chance + unshared) / rate if n else math.nan
        difference = observed - predicted
        # A smaller difference is rounding, for example where a feature holds for every item.
        if abs(difference) <= 1e-9 * max(1.0, abs(predicted)) or not n:
            z = 0.0 if n else math.nan
        else:
            z = difference / spread_of_difference if spread_of_difference else math.inf
        seen = {"observed": observed, "observed_se": spread, "z": z}
        checks.append(Check(name=name, predicted=predicted, predicted_se=se, **seen))
    return tuple(checks)


def warnings_of(checks: Sequence[Check]) -> list[str]:
    """Return the warnings that the checks raise, in words."""
    return [
        f"The mean of {check.name} is {check.observed:.4g} on the samples, but "
        f"{check.predicted:.4g} was predicted: {abs(check.z):.1f} standard errors apart, where "
        f"chance allows {MAX_Z:g}. "
        "The certificate or the samples are wrong: draw more, and read the other warnings."
        for check in checks
        if check.suspicious
    ]
