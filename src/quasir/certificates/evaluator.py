"""From draws, or what they were reduced to, to certificates: once prepared, evaluate any beta."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from quasir.certificates.certificate import Certificate
from quasir.certificates.doubts import Evidence, doubts_about
from quasir.core.types import Array
from quasir.estimation.columns import Basis
from quasir.estimation.estimate import Estimate
from quasir.estimation.formulas import estimate
from quasir.estimation.intervals import PSEUDO_DRAW_MASS, with_intervals
from quasir.estimation.tail import fit_tail

__all__ = ["Evaluator", "Points"]


@dataclass(frozen=True)
class Points:
    """Estimates by name at an array of levels, and how many draws lie above each.

    TVD is known to within `tvd_slack` of its value on these draws.
    """

    log_beta: Array
    estimates: dict[str, Estimate]
    n_above: Array
    tvd_slack: Array


class Evaluator:
    """Evaluates every estimate at any beta."""

    def __init__(self, basis: Basis) -> None:
        self._basis, self.ratios = basis, basis.ratios
        self.n, self.names, self.doubts = basis.ratios.n, basis.names, basis.doubts
        self.tail = fit_tail(self.ratios, basis.log_ceiling)
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

    def values(self, name: str, log_beta: Array) -> Array:
        """Return one estimate's values alone, to search with."""
        value: Array = getattr(estimate(self.ratios.at, log_beta), name)[0]
        return value

    def points(self, log_beta: Array, *, everything: bool = False) -> Points:
        """Return every estimate with its interval; `everything` is for q itself."""
        if not self.n_possible:
            zeros = np.zeros(len(log_beta))
            return Points(log_beta, self._nothing(len(log_beta)), zeros, zeros)
        basis = self._basis
        raw = estimate(self.ratios.at, log_beta, has_base=basis.has_base, everything=everything)
        plus = estimate(
            lambda cut: self.ratios.at(cut).plus_draw(self._more), log_beta, everything=everything
        )
        estimates = with_intervals(raw, plus, self.tail, self.names, basis.boolean)
        for name, shift in zip(self.names, basis.shift, strict=True):
            e = estimates[f"moment:{name}"]
            estimates[f"moment:{name}"] = Estimate(
                e.value + shift, e.se, e.low + shift, e.high + shift
            )
        return Points(log_beta, estimates, raw.n_above, raw.tvd_slack)

    def certificate(self, points: Points, i: int = 0, name: str = "p_beta") -> Certificate:
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
        )
        return Certificate(
            name=name,
            log_beta=log_beta if name == "p_beta" else -math.inf,
            n=self.n,
            acceptance_rate=parts["acceptance_rate"],
            tvd=parts["tvd"],
            tvd_bound=parts["tvd_bound"],
            kl=parts["kl"],
            log_z=parts["log_z"],
            log_z_beta=parts["log_z_beta"],
            kl_base=parts.get("kl_base"),
            moments={feature: parts[f"moment:{feature}"] for feature in self.names},
            ess=self.ess,
            pareto_k=self.tail.k,
            doubts=[*doubts_about(evidence), *self.doubts],
        )

    def limit(self, *, everything: bool) -> Certificate:
        """Return the limit beta -> 0: q_proj of appendix D, or q itself.

        Below every ratio p_beta no longer changes, so the limit is had at any such beta. The
        place of Z_beta is taken by that of Z_beta/beta, which is q(Supp P) for q_proj.
        """
        name = "q" if everything else "q_proj"
        below = np.array([self.ratios.level(0) - 1.0 if self.n_possible else 0.0])
        points = self.points(below, everything=everything)
        estimates, z = points.estimates, points.estimates["log_z_beta"]
        estimates["log_z_beta"] = Estimate(z.value - below, z.se, z.low - below, z.high - below)
        if everything:
            estimates["acceptance_rate"] = Estimate(*np.array([[1.0], [0.0], [1.0], [1.0]]))
            estimates.update(self._basis.means_of_q())
        return self.certificate(points, name=name)

    def _nothing(self, size: int) -> dict[str, Estimate]:
        """Return what is known where no draw had P(x) > 0: next to nothing."""
        most = -math.expm1(math.log(0.025) / self.n)

        def same(numbers: Sequence[float]) -> Estimate:
            return Estimate(*(np.full(size, number) for number in numbers))

        nan, inf = math.nan, math.inf
        return {
            "acceptance_rate": same((0.0, nan, 0.0, most)),
            "tvd": same((nan, nan, 0.0, 1.0)),
            "tvd_bound": same((nan, nan, 0.0, 1.0)),
            "kl": same((nan, nan, 0.0, inf)),
            "log_z": same((nan, nan, -inf, inf)),
            "log_z_beta": same((nan, nan, -inf, inf)),
            **({"kl_base": same((nan, nan, 0.0, inf))} if self._basis.has_base else {}),
            **{f"moment:{name}": same((nan, nan, -inf, inf)) for name in self.names},
        }
