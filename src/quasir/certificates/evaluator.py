"""The evaluator: from draws, or from their summary, to the certificate at any beta."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from quasir.certificates.certificate import Certificate
from quasir.certificates.warnings import Disagreement, Evidence, find_disagreement, warnings_about
from quasir.core.formatting import level_text
from quasir.core.types import Array
from quasir.estimation.estimate import Estimate, kish_ess
from quasir.estimation.estimation_input import EstimationInput
from quasir.estimation.formulas import estimate
from quasir.estimation.guarantee import NOTHING, Assumptions, Guarantee, Guarantees, guarantees
from quasir.estimation.intervals import PSEUDO_DRAW_MASS, with_intervals, zero_hit_bound
from quasir.estimation.quantities import QUANTITIES, Key, Moment
from quasir.estimation.tail import fit_tail

FAR_BELOW = 50.0
"""Nats below the smallest ratio: p_beta is constant there, and Z_beta/Z is 0 but for rounding."""


@dataclass(frozen=True)
class Points:
    """Estimates at an array of levels."""

    log_beta: Array
    estimates: dict[Key, Estimate]
    n_above: Array  # draws above each level
    tvd_slack: Array  # how far TVD may be from its value on these draws


class Evaluator:
    """Evaluates every estimate at any beta."""

    def __init__(self, source: EstimationInput) -> None:
        self.source, self.ratios = source, source.ratios
        self.n, self.n_possible = source.ratios.n, source.ratios.n_possible
        self.tail = fit_tail(self.ratios, source.known.log_ceiling)
        self._more = self.tail.log_ratio_at(PSEUDO_DRAW_MASS / self.n)
        self._assumptions: dict[float, Assumptions] = {}

    @cached_property
    def ess(self) -> float:
        """Kish's effective sample size of the ratios, (sum w)^2 / sum w^2."""
        if not self.n_possible:
            return 0.0
        total = self.ratios.at(np.array([-np.inf])).total
        return kish_ess(float(total[0]), float(total[1]))

    @cached_property
    def disagreement(self) -> Disagreement | None:
        """What the draws show against a Z that is known."""
        if self.source.known.log_z is None or not self.n_possible:
            return None
        log_z = estimate(self.ratios.at, np.array([self.ratios.log_max])).pairs["log_z"]
        value, error = float(log_z[0][0]), float(log_z[1][0])
        said = f"{level_text(value)} (relative error {error:.2g})"
        return find_disagreement(self.source.binned, self.source.known, said)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong at every beta, besides what is wrong with the ratios."""
        found = self.disagreement
        return self.source.warnings + (() if found is None else (found.text,))

    def assumptions(self, confidence: float) -> Assumptions:
        """Return what guarantees rest on; what the draws contradict is left out."""
        if confidence not in self._assumptions:
            found, source = self.disagreement, self.source
            if found is not None and found.impossible:
                made = Assumptions(basis=f"{NOTHING}: the draws contradict the Z that is known.")
            else:
                made = Assumptions.of(source.known, source.base_check, confidence)
                made = made.without_violated_ceiling(source.binned.log_top)
            self._assumptions[confidence] = made
        return self._assumptions[confidence]

    def guarantees(self, log_beta: Array, confidence: float = 0.95) -> Guarantees:
        """Return the guarantees at each level."""
        assumptions = self.assumptions(confidence)
        return guarantees(self.source.binned, log_beta, assumptions, confidence=confidence)

    def values(self, name: str, log_beta: Array) -> Array:
        """Return the values of one estimate without intervals, for a search."""
        return estimate(self.ratios.at, log_beta).pairs[name][0]

    def points(self, log_beta: Array, *, everything: bool = False) -> Points:
        """Return every estimate with its interval; `everything` is that of `estimate`."""
        zeros = np.zeros(len(log_beta))
        if not self.n_possible:
            return Points(log_beta, self._nothing(len(log_beta)), zeros, zeros)
        source = self.source
        raw = estimate(self.ratios.at, log_beta, has_base=source.has_base, everything=everything)
        if self.tail.at_max == self.n_possible and not everything:
            # Every ratio is the same, so p_beta is p on these draws: what is left is rounding.
            flat = {name: (zeros, zeros) for name, q in QUANTITIES.items() if q.zero_if_flat}
            raw.pairs.update(flat)
        plus = estimate(
            lambda cut: self.ratios.at(cut).plus_draw(self._more), log_beta, everything=everything
        )
        estimates = with_intervals(raw, plus, self.tail, source.names, source.boolean)
        for name, shift in zip(source.names, source.shift, strict=True):
            estimates[Moment(name)] = _shifted(estimates[Moment(name)], shift)
        return Points(log_beta, estimates, raw.n_above, raw.tvd_slack)

    def certificate(
        self,
        points: Points,
        i: int = 0,
        name: str = "p_beta",
        *,
        guarantee: Guarantee | None = None,
        chosen: bool = False,
    ) -> Certificate:
        """Return the certificate at point i."""
        parts = {key: part[i] for key, part in points.estimates.items()}
        log_beta = float(points.log_beta[i])
        evidence = Evidence(
            log_beta=log_beta,
            n=self.n,
            n_possible=self.n_possible,
            n_above=float(points.n_above[i]),
            accepted=self.n * parts["acceptance_rate"].value,
            ess=self.ess,
            tail=self.tail,
            guaranteed=guarantee is not None and guarantee.kl is not None,
            chosen=chosen,
        )
        return Certificate(
            name=name,
            log_beta=log_beta if name == "p_beta" else -math.inf,
            n=self.n,
            estimates=parts,
            ess=self.ess,
            pareto_k=self.tail.k,
            warnings=(*warnings_about(evidence), *self.warnings),
            guarantee=guarantee,
        )

    def limit(self, *, everything: bool) -> Certificate:
        """Return the certificate of the limit of p_beta for beta -> 0 (`appx:naive_filter`).

        Below the smallest ratio p_beta is constant: it is q_proj, q filtered to the support of P,
        and its acceptance rate is q(Supp P), `Z_{q_proj}`. The paper defines it for a pointwise
        constraint; here P may be any target. With `everything`, the draws of P(x) = 0 are accepted
        too, and it is q itself. Z_beta/beta, which has a limit, replaces Z_beta.
        """
        below = np.array([self.ratios.level(0) - FAR_BELOW if self.n_possible else 0.0])
        points = self.points(below, everything=everything)
        estimates = points.estimates
        estimates["log_z_beta"] = _shifted(estimates["log_z_beta"], -below)
        kl = estimates["kl"]
        # Where no two ratios differ, an item not drawn may have any ratio to a beta near 0.
        unbounded = np.where(np.isnan(kl.se), np.inf, kl.high)
        estimates["kl"] = Estimate(kl.value, kl.se, kl.low, unbounded)
        if everything:
            one, zero = np.ones(1), np.zeros(1)
            estimates["acceptance_rate"] = Estimate(one, zero, one, one, np.array([True]))
            estimates.update(self.source.means_of_q())
        return self.certificate(points, name="q" if everything else "q_proj")

    def _nothing(self, size: int) -> dict[Key, Estimate]:
        """Return the estimates where no draw had P(x) > 0: unknown, within their ranges."""

        def same(*numbers: float) -> Estimate:
            return Estimate(*(np.full(size, number) for number in numbers))

        nan = math.nan
        known: dict[Key, Estimate] = {
            name: same(nan, nan, quantity.low, quantity.high)
            for name, quantity in QUANTITIES.items()
            if self.source.has_base or not quantity.of_base
        }
        known["acceptance_rate"] = same(0.0, nan, 0.0, zero_hit_bound(self.n))
        return known | {
            Moment(name): same(nan, nan, -math.inf, math.inf) for name in self.source.names
        }


def _shifted(part: Estimate, by: Array) -> Estimate:
    return Estimate(part.value + by, part.se, part.low + by, part.high + by)
