"""The evaluator: from draws in memory, or from their summary, to the certificate at any beta."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from quasir.certificates.certificate import Certificate
from quasir.certificates.warnings import Disagreement, find_disagreement, warnings_about
from quasir.core.formatting import level_text
from quasir.core.types import Array
from quasir.draws.ceiling import BaseCheck, RatioBounds
from quasir.draws.draws import Draws
from quasir.estimation.binned_draws import BinnedDraws
from quasir.estimation.binned_ratios import BinnedRatios, Ratios
from quasir.estimation.estimate import Z95, Estimate, Key, Moment, kish_ess
from quasir.estimation.formulas import estimate
from quasir.estimation.guarantee import NOTHING, Assumptions, Guarantee, guarantees
from quasir.estimation.intervals import PSEUDO_DRAW_MASS, fit_tail, with_intervals, zero_hit_bound
from quasir.estimation.quantities import QUANTITIES
from quasir.estimation.ratios import Columns, SortedRatios, ratio_columns
from quasir.estimation.summary import Summary

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
    """Evaluates every estimate at any beta; `shift` was subtracted from the features' columns."""

    def __init__(
        self,
        ratios: Ratios,
        columns: Columns | Summary,
        shift: Array,
        warnings: tuple[str, ...],
        known: RatioBounds,
        base_check: BaseCheck | None,
    ) -> None:
        self.ratios, self.n, self.n_possible = ratios, ratios.n, ratios.n_possible
        self.names, self.boolean, self.has_base = columns.names, columns.boolean, columns.has_base
        self.shift, self.known, self.base_check = shift, known, base_check
        self._given_warnings = warnings
        self.tail = fit_tail(ratios, known.log_ceiling)
        self._more = self.tail.log_ratio_at(PSEUDO_DRAW_MASS / self.n)
        self._assumptions: dict[float, Assumptions] = {}

    @cached_property
    def binned(self) -> BinnedDraws:
        """The draws in the form that guarantees are made from."""
        raise NotImplementedError

    def means_of_q(self) -> dict[Key, Estimate]:
        """Return the means over all draws, also those with P(x) = 0; NaN if any draw has NaN."""
        mean, spread = self._over_all()
        known: list[Key] = [*map(Moment, self.names), "kl_base"]
        found: dict[Key, Estimate] = {}
        for name, value, squares in zip(known, mean.tolist(), spread.tolist(), strict=False):
            se = math.sqrt(squares) / self.n
            ends = (value, se, value - Z95 * se, value + Z95 * se)
            found[name] = Estimate(*(np.array([end]) for end in ends))
        return found

    def _over_all(self) -> tuple[Array, Array]:
        raise NotImplementedError  # each column's mean, and its sum of squared deviations

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
        if self.known.log_z is None or not self.n_possible:
            return None
        log_z = estimate(self.ratios.at, np.array([self.ratios.log_max])).pairs["log_z"]
        value, error = float(log_z[0][0]), float(log_z[1][0])
        said = f"{level_text(value)} (relative error {error:.2g})"
        return find_disagreement(self.binned, self.known, said)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong at every beta, besides what is wrong with the ratios."""
        check, found = self.base_check, self.disagreement
        by_base = () if check is None else check.warnings(self.ratios.log_max)
        return (*self._given_warnings, *by_base, *(() if found is None else (found.text,)))

    def assumptions(self, confidence: float) -> Assumptions:
        """Return what guarantees rest on; what the draws contradict is left out."""
        if confidence not in self._assumptions:
            found = self.disagreement
            if found is not None and found.impossible:
                made = Assumptions(basis=f"{NOTHING}: the draws contradict the Z that is known.")
            else:
                made = Assumptions.of(self.known, self.base_check, confidence)
                made = made.without_violated_ceiling(self.binned.log_top)
            self._assumptions[confidence] = made
        return self._assumptions[confidence]

    def guarantees(self, log_beta: Array, confidence: float = 0.95) -> Guarantee:
        """Return the guarantees at each level."""
        assumptions = self.assumptions(confidence)
        return guarantees(self.binned, log_beta, assumptions, confidence=confidence)

    def values(self, name: str, log_beta: Array) -> Array:
        """Return the values of one estimate without intervals, for a search."""
        return estimate(self.ratios.at, log_beta).pairs[name][0]

    def points(self, log_beta: Array, *, everything: bool = False) -> Points:
        """Return every estimate with its interval; `everything` is that of `estimate`."""
        zeros = np.zeros(len(log_beta))
        if not self.n_possible:
            return Points(log_beta, self._nothing(len(log_beta)), zeros, zeros)
        raw = estimate(self.ratios.at, log_beta, has_base=self.has_base, everything=everything)
        if self.tail.at_max == self.n_possible and not everything:
            # Every ratio is the same, so p_beta is p on these draws: what is left is rounding.
            flat = {name: (zeros, zeros) for name, q in QUANTITIES.items() if q.zero_if_flat}
            raw.pairs.update(flat)
        plus = estimate(
            lambda cut: self.ratios.at(cut).plus_draw(self._more), log_beta, everything=everything
        )
        estimates = with_intervals(raw, plus, self.tail, self.names, self.boolean)
        for name, shift in zip(self.names, self.shift, strict=True):
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
        accepted = self.n * parts["acceptance_rate"].value
        sure = guarantee is not None and guarantee.kl is not None
        found = warnings_about(
            self, log_beta, float(points.n_above[i]), accepted, guaranteed=sure, chosen=chosen
        )
        return Certificate(
            name=name,
            log_beta=log_beta if name == "p_beta" else -math.inf,
            n=self.n,
            estimates=parts,
            ess=self.ess,
            pareto_k=self.tail.k,
            warnings=(*found, *self.warnings),
            guarantee=guarantee,
        )

    def limit(self, *, everything: bool) -> Certificate:
        """Return the certificate of q_proj, the limit of p_beta for beta -> 0, or of q itself."""
        # q_proj is q on the support of P (`appx:naive_filter`); with `everything`, the draws with
        # P(x) = 0 are accepted too. Z_beta/beta, which has a limit, replaces Z_beta.
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
            estimates.update(self.means_of_q())
        return self.certificate(points, name="q" if everything else "q_proj")

    def _nothing(self, size: int) -> dict[Key, Estimate]:
        """Return the estimates where no draw had P(x) > 0: unknown, within their ranges."""

        def same(*numbers: float) -> Estimate:
            return Estimate(*(np.full(size, number) for number in numbers))

        nan = math.nan
        known: dict[Key, Estimate] = {
            name: same(nan, nan, quantity.low, quantity.high)
            for name, quantity in QUANTITIES.items()
            if self.has_base or not quantity.of_base
        }
        known["acceptance_rate"] = same(0.0, nan, 0.0, zero_hit_bound(self.n))
        return known | {Moment(name): same(nan, nan, -math.inf, math.inf) for name in self.names}


class SortedDraws(Evaluator):
    """Evaluates draws in memory, sorted by their ratio; their items are not kept."""

    ratios: SortedRatios

    def __init__(self, draws: Draws) -> None:
        self._scores = draws.log_p, draws.log_q, draws.log_base, draws.features
        columns = ratio_columns(*self._scores)
        ratios = SortedRatios(columns.log_ratio, columns.low, columns.high)
        shift = columns.low_shift[: len(columns.names)]
        super().__init__(ratios, columns, shift, draws.warnings, draws.known, draws.base_check)

    @cached_property
    def binned(self) -> BinnedDraws:
        """The draws in the form that guarantees are made from."""
        moved = zip(self.names, self.ratios.columns, self.shift, strict=False)
        features = {name: column + by for name, column, by in moved}
        return BinnedDraws.of_sorted(
            self.n, self.ratios.log_w, features=features, bounds=self.known.bounds
        )

    def _over_all(self) -> tuple[Array, Array]:
        return ratio_columns(*self._scores).over_all()  # large, and so computed again


class SummarisedDraws(Evaluator):
    """Evaluates draws on disk, by their summary."""

    def __init__(
        self,
        summary: Summary,
        warnings: tuple[str, ...] = (),
        known: RatioBounds | None = None,
        base_check: BaseCheck | None = None,
    ) -> None:
        self._summary = summary
        features = len(summary.names)
        shift = np.where(summary.boolean, 0.0, summary.low_shift[:features])
        low, high = summary.low_shift.copy(), summary.high_shift.copy()
        low[:features] = high[:features] = shift
        bins = summary.shifted(low, high).bins
        ratios = BinnedRatios(summary.n, bins, summary.log_w, summary.often)
        super().__init__(ratios, summary, shift, warnings, known or RatioBounds(), base_check)

    @cached_property
    def binned(self) -> BinnedDraws:
        """The draws in the form that guarantees are made from."""
        s = self._summary
        columns = (s.names, s.low_shift, s.high_shift)
        return BinnedDraws.of_bins(s.n, s.bins, s.log_max, *columns, self.known.bounds)

    def _over_all(self) -> tuple[Array, Array]:
        return self._summary.mean, self._summary.spread


def _shifted(part: Estimate, by: Array) -> Estimate:
    return Estimate(part.value + by, part.se, part.low + by, part.high + by)
