"""A target that was made from constraints, and what it achieved."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quasir.core.progress import Progress
from quasir.core.streams import Purpose, derived_seed, root_seed
from quasir.core.types import Array, Proposal, Seed
from quasir.draws.draw import draw
from quasir.errors import InfeasibleError
from quasir.estimation.estimate import Z95, Estimate
from quasir.estimation.intervals import OFTEN, PSEUDO_DRAW_MASS, fit_tail
from quasir.estimation.ratios import SortedRatios
from quasir.targets.factors import Factor, Tilt
from quasir.targets.feature import Feature
from quasir.targets.product import Product

SURE = 3.0  # standard errors by which a shape must exceed 0, to be taken as positive


class Constrained(Product):
    """A target made by `constrain`.

    Attributes
    ----------
    constraints : dict
        Feature name -> the wanted moment.
    coefficients : dict
        Feature name -> the fitted lambda; a pointwise feature has none.
    achieved : dict of Estimate
        The moments of p. The value is the moment on the fitting draws; the standard error and the
        interval are for the true moment of p, because those draws are finitely many. The interval
        allows for a heavy tail and keeps to the bounds that the feature declares; an end is
        infinite where the draws do not bound the moment.
    ess : float
        Effective number of draws that the coefficients were fitted on.
    precise : bool
        Whether the standard error of every moment is at most 0.005 for a boolean feature, and 0.01
        standard deviations under p for another, and no interval reaches more than twice as far
        from the moment as with such a standard error and no heavy tail.

    Examples
    --------
    >>> import quasir as qr
    >>> base = qr.Table({"he sings": 0.9, "she sings": 0.1})
    >>> target = qr.constrain(base, {qr.features.female: 0.5}, n=20_000, seed=0)
    >>> round(target.coefficients["female"], 1)  # log 9
    2.2
    """

    def __init__(
        self,
        base: Any,
        factors: list[Factor],
        watched: list[Feature],
        constraints: dict[str, float],
        achieved: dict[str, Estimate],
        ess: float,
        precise: bool,
    ) -> None:
        super().__init__(base, factors, watched)
        self.constraints, self.achieved = constraints, achieved
        self.ess, self.precise = ess, precise
        self.coefficients = {
            factor.feature.name: factor.coefficient
            for factor in factors
            if isinstance(factor, Tilt) and factor.feature.name in constraints
        }

    def check(
        self,
        n: int = 100_000,
        seed: Seed = None,
        proposal: Proposal | None = None,
        progress: Progress = None,
    ) -> dict[str, Estimate]:
        """Return the moments of p on fresh draws, from the base or a better proposal.

        They are independent of the draws of `constrain`, and of those that `draw` and the samplers
        make with the same seed.
        """
        stream = derived_seed(root_seed(seed), Purpose.CHECK)
        draws = draw(self, proposal or self.base, n, seed=stream, progress=progress)
        possible = draws.log_ratio > -np.inf
        if not possible.any():
            raise InfeasibleError(
                f"the target forbids all of {n:,} fresh draws, so its moments are not known: draw "
                "more, or draw from a proposal that meets the constraint more often (proposal=...)."
            )
        bounds = {feature.name: feature.bounds for feature in self.features}
        moments = {}
        for name in self.constraints:
            column = draws.features[name][possible]
            own = (0.0, 1.0) if column.dtype == bool else bounds[name]
            moments[name] = weighted_mean(column.astype(float), draws.log_ratio[possible], n, own)
        return moments

    def __str__(self) -> str:
        lines = [f"{'feature':<24} {'wanted':>8}  {'lambda':>9}  achieved"]
        for name, moment in self.constraints.items():
            coefficient = self.coefficients.get(name)
            shown = "pointwise" if coefficient is None else f"{coefficient:.4f}"
            lines.append(f"{name:<24} {moment:>8.4g}  {shown:>9}  {self.achieved[name]}")
        return "\n".join([*lines, f"from an effective {self.ess:,.0f} draws"])


def weighted_mean(
    values: Array, log_weight: Array, n: int, bounds: tuple[float, float] = (-math.inf, math.inf)
) -> Estimate:
    """Return the self-normalised mean of the possible draws, out of n, with its 95 % interval.

    Each end is also computed with one more draw, whose share in the error is the one that q exceeds
    with probability 0.1/n by the fitted tail (docs/records/intervals.md). Where it has no mean, or
    the log weights have a polynomial tail (E[w] is then infinite, however the weights seen look),
    the draws do not bound the mean on that side, and the end is the feature's own bound.
    """
    top = log_weight.max()
    log_share = log_weight - top - math.log(np.exp(log_weight - top).sum())
    weight = np.exp(log_share)
    mean = float(weight @ values)
    apart = values - mean
    se = math.sqrt(float((weight * apart) @ (weight * apart)))
    ends = []
    for sign in (-1, 1):
        on_side = sign * apart > 0
        with np.errstate(divide="ignore"):
            log_part = np.where(on_side, log_share + np.log(np.abs(apart)), -np.inf)
        reach = Z95 * se
        if on_side.any():
            more = _one_more(log_part, n)
            reach = max(reach, more + Z95 * math.hypot(se, more))
        if on_side[np.argsort(log_weight)[-OFTEN:]].any() and _polynomial_tail(log_weight, n):
            reach = math.inf
        ends.append(mean + sign * reach)
    low, high = bounds
    return Estimate(mean, se, max(ends[0], min(low, mean)), min(ends[1], max(high, mean)))


def _one_more(log_part: Array, n: int) -> float:
    """Return what one more draw may add; infinite where the fitted tail has no mean."""
    tail = fit_tail(_padded(log_part, n))
    return math.inf if tail.k >= 1 else math.exp(min(tail.log_ratio_at(PSEUDO_DRAW_MASS / n), 700))


def _polynomial_tail(log_weight: Array, n: int) -> bool:
    """Return whether the largest log weights fall off like a power: then E[w] is infinite."""
    with np.errstate(divide="ignore"):
        tail = fit_tail(_padded(np.log(log_weight - log_weight.min()), n))
    return tail.fitted and tail.k > SURE * (1 + tail.k) / math.sqrt(tail.count)


def _padded(logs: Array, n: int) -> SortedRatios:
    """Return them as ratios of n draws: those that are impossible have none."""
    return SortedRatios(np.concatenate([logs, np.full(n - len(logs), -np.inf)]))
