"""The evaluator: from draws, or from their summary, to the certificate at any beta."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from quasir.certificates.certificate import Certificate
from quasir.certificates.doubts import Evidence, doubts_about
from quasir.core.types import Array
from quasir.estimation.columns import Basis
from quasir.estimation.estimate import Estimate
from quasir.estimation.formulas import estimate
from quasir.estimation.ground import Ground, believed, ground_of
from quasir.estimation.intervals import PSEUDO_DRAW_MASS, with_intervals
from quasir.estimation.no_hits import no_hits
from quasir.estimation.promise import Promise, Promises, promises
from quasir.estimation.quantities import QUANTITIES, Key, Moment
from quasir.estimation.spread import Spread
from quasir.estimation.tail import fit_tail

__all__ = ["Evaluator"]


@dataclass(frozen=True)
class Points:
    """Estimates at an array of levels.

    Attributes
    ----------
    log_beta : array
    estimates : dict of Estimate of arrays
    n_above : array
        Draws above each level.
    tvd_slack : array
        How far TVD may be from its value on these draws.
    """

    log_beta: Array
    estimates: dict[Key, Estimate]
    n_above: Array
    tvd_slack: Array


class Evaluator:
    """Evaluates every estimate at any beta.

    Parameters
    ----------
    basis : Basis
        Of draws in memory (`basis_of`) or of a summary (`Summary.basis`).
    """

    def __init__(self, basis: Basis) -> None:
        self.basis, self.ratios = basis, basis.ratios
        self.n, self.names, self.doubts = basis.ratios.n, basis.names, basis.doubts
        self.tail = fit_tail(self.ratios, basis.known.log_ceiling)
        self._more = self.tail.log_ratio_at(PSEUDO_DRAW_MASS / self.n)

    @property
    def n_possible(self) -> int:
        """Draws with P(x) > 0."""
        return self.ratios.n_possible

    @cached_property
    def ess(self) -> float:
        """Kish's effective sample size of the ratios, (sum w)^2 / sum w^2."""
        if not self.n_possible:
            return 0.0
        total = self.ratios.at(np.array([-np.inf])).total
        return float(total[0] ** 2 / total[1])

    @cached_property
    def spread(self) -> Spread:
        """The draws in the form that promises are made from."""
        return self.basis.spread()

    def ground(self, confidence: float) -> Ground:
        """Return what promises rest on; a ceiling that a ratio exceeds is not believed."""
        ground = ground_of(self.basis.known, self.basis.base_check, confidence)
        return believed(self.spread, ground)

    def promises(self, log_beta: Array, confidence: float = 0.95) -> Promises:
        """Return the promises at each level."""
        return promises(self.spread, log_beta, self.ground(confidence), confidence=confidence)

    def values(self, name: str, log_beta: Array) -> Array:
        """Return the values of one estimate without intervals, for a search."""
        return estimate(self.ratios.at, log_beta).pairs[name][0]

    def points(self, log_beta: Array, *, everything: bool = False) -> Points:
        """Return every estimate with its interval; `everything` is that of `estimate`."""
        if not self.n_possible:
            zeros = np.zeros(len(log_beta))
            return Points(log_beta, self._nothing(len(log_beta)), zeros, zeros)
        basis = self.basis
        raw = estimate(self.ratios.at, log_beta, has_base=basis.has_base, everything=everything)
        if self.tail.at_max == self.n_possible and not everything:
            # Every ratio is the same, so p_beta is p on these draws: what is left is rounding.
            zeros = np.zeros(len(log_beta))
            raw.pairs.update(
                {name: (zeros, zeros) for name, q in QUANTITIES.items() if q.zero_if_flat}
            )
        plus = estimate(
            lambda cut: self.ratios.at(cut).plus_draw(self._more), log_beta, everything=everything
        )
        estimates = with_intervals(raw, plus, self.tail, self.names, basis.boolean)
        for name, shift in zip(self.names, basis.shift, strict=True):
            e = estimates[Moment(name)]
            estimates[Moment(name)] = Estimate(e.value + shift, e.se, e.low + shift, e.high + shift)
        return Points(log_beta, estimates, raw.n_above, raw.tvd_slack)

    def certificate(
        self,
        points: Points,
        i: int = 0,
        name: str = "p_beta",
        *,
        promise: Promise | None = None,
        chosen: bool = False,
    ) -> Certificate:
        """Return the certificate at point i.

        Parameters
        ----------
        points : Points
        i : int
        name : str
            The distribution that is certified.
        promise : Promise, optional
        chosen : bool
            Whether an estimate of these draws chose this level.
        """
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
            promised=promise is not None and promise.kl is not None,
            chosen=chosen,
        )
        return Certificate(
            name=name,
            log_beta=log_beta if name == "p_beta" else -math.inf,
            n=self.n,
            estimates=parts,
            ess=self.ess,
            pareto_k=self.tail.k,
            doubts=(*doubts_about(evidence), *self.doubts),
            promise=promise,
        )

    def _nothing(self, size: int) -> dict[Key, Estimate]:
        """Return the estimates where no draw had P(x) > 0: unknown, within their ranges."""

        def same(*numbers: float) -> Estimate:
            return Estimate(*(np.full(size, number) for number in numbers))

        nan = math.nan
        known: dict[Key, Estimate] = {
            name: same(nan, nan, quantity.low, quantity.high)
            for name, quantity in QUANTITIES.items()
            if self.basis.has_base or not quantity.of_base
        }
        known["acceptance_rate"] = same(0.0, nan, 0.0, no_hits(self.n))
        return known | {Moment(name): same(nan, nan, -math.inf, math.inf) for name in self.names}
