"""From wanted moments to the target that has them and is closest to the base (section 3.2)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.constraints.dual import (
    contradiction,
    must_be_enough,
    must_be_inside,
    must_fire,
    solve,
)
from quasir.core.arguments import check_count, number
from quasir.core.items import take
from quasir.core.progress import Progress, progress_of
from quasir.core.streams import BLOCK, DrawStreams, Purpose, derived_seed, root_seed
from quasir.core.types import Array, Proposal, Seed
from quasir.draws.draw import draw
from quasir.draws.draw_blocks import draw_pieces
from quasir.draws.draws import Draws
from quasir.errors import InfeasibleError, InputError
from quasir.estimation.estimate import Z95, Estimate, kish_ess
from quasir.estimation.intervals import OFTEN, PSEUDO_DRAW_MASS, fit_tail
from quasir.estimation.ratios import SortedRatios
from quasir.targets.feature import Feature, check_feature
from quasir.targets.product import Factor, Pointwise, Product, Tilt

ROUNDS = (4 * BLOCK, 8 * BLOCK, 16 * BLOCK, 32 * BLOCK, 64 * BLOCK, 100_000)
"""Draws in all after each round."""
SURE = 3.0  # standard errors by which a shape must exceed 0, to be taken as positive
PRECISE = 0.005
"""A moment is known well enough if its standard error is at most this share of its spread.

The spread is 1 for a boolean feature, and two standard deviations under p for another.
"""


def constrain(
    base: Any,
    constraints: Mapping[Feature, float],
    n: int | None = None,
    seed: Seed = None,
    *,
    proposal: Proposal | None = None,
    draws: Draws | None = None,
    progress: Progress = None,
) -> Constrained:
    """Return the target that has the wanted moments and is closest to the base in KL.

    A boolean feature with the constraint 0 or 1 is pointwise: it holds for no item or for every
    item. The others are distributional: p(x) ~ a(x) exp(lambda . phi(x)) on the items that remain.
    The convex dual gives lambda from n draws.

    Parameters
    ----------
    base : object with ``log_prob`` and ``sample``, or a Product on one
        a(x), or a(x) b(x) with factors that are given: the target then keeps these factors, and
        lambda is fitted so that the constraints are met together with them.
    constraints : mapping
        Feature -> the mean that it should have.
    n, seed : int, optional
        Draws to fit on, from the base, or from `proposal`. By default as many as it takes until
        every moment is precise (see `Constrained`), but no more than 100,000. They are
        independent of the draws that `draw` makes with the same seed, so no draw is used both to
        fit and to certify.
    proposal : Proposal, optional
        Another model to draw from, weighted by a/q, if the base meets the constraints too rarely.
    draws : Draws, optional
        Existing draws to fit on instead, with items, or with a column for each feature.
    progress : bool or callable

    Raises
    ------
    InfeasibleError
        If the constraints cannot be met, contradict each other, or are supported by too few draws.

    Examples
    --------
    >>> import quasir as qr
    >>> base = qr.Table({"he": 0.7, "she": 0.2, "they": 0.1})
    >>> she = qr.Feature("she", lambda x: x == "she")
    >>> they = qr.Feature("they", lambda x: x == "they")
    >>> target = qr.constrain(base, {they: 0.0, she: 0.5}, n=10_000, seed=0)
    >>> np.exp(target.log_score(["they"])), round(target.achieved["she"], 6)
    (array([0.]), 0.5)
    """
    given = base if isinstance(base, Product) else Product(base)
    wanted = _checked(constraints, given)
    if draws is not None and proposal is not None:
        raise InputError("give draws or a proposal to draw from, not both.")
    if draws is not None:
        return _fitted(given, wanted, draws)
    if n is not None:
        check_count("n", n)
    *rounds, most = ROUNDS if n is None else (n,)
    report = progress_of(progress, "drawn to fit")
    features = [*(factor.feature for factor in given.factors), *wanted]
    streams = DrawStreams(derived_seed(root_seed(seed), Purpose.FIT))
    how = Product(given.base, watched=features), proposal or given.base, streams
    parts: list[Draws] = []
    for size in (*rounds, most):
        for piece in draw_pieces(*how, sum(map(len, parts)) // BLOCK, size):
            parts.append(piece)
            drawn = sum(map(len, parts))
            report(drawn, most, drawn)
        # More draws may support what some do not.
        with contextlib.suppress(*([InfeasibleError] if size < most else [])):
            target = _fitted(given, wanted, Draws.concatenate(parts))
            if target.precise and size < most:
                report(size, size, size)
            if target.precise or size == most:
                return target
    raise AssertionError("the last round returns or raises")


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
        """Return the moments of p on fresh draws, from the base or a better proposal."""
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
    """Return the self-normalised mean of the possible draws, out of n, with its 95 % interval."""
    # Each end is also computed with one more draw, of a share that q exceeds with probability 0.1/n
    # by the fitted tail (docs/records/intervals.md). Where that has no mean, or the log weights
    # have a polynomial tail (E[w] is infinite), the end is the feature's own bound.
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


def _fitted(given: Product, wanted: dict[Feature, float], draws: Draws) -> Constrained:
    """Return the target that meets the constraints, from draws at hand."""
    columns = {feature.name: _column(feature, draws) for feature in wanted}
    pointwise = [f for f in wanted if columns[f.name].dtype == bool and wanted[f] in (0.0, 1.0)]
    tilted = [feature for feature in wanted if feature not in pointwise]
    met = np.ones(len(draws), dtype=bool)
    for feature in pointwise:
        asked = columns[feature.name] == bool(wanted[feature])
        must_fire(feature, wanted[feature], asked)
        met &= asked
    log_weight = _log_weights(given, draws, met)
    possible = log_weight > -np.inf
    if not possible.any():
        names = ", ".join(repr(feature.name) for feature in pointwise)
        raise InfeasibleError(
            f"{names} hold together for none of {len(draws):,} draws: they may contradict each "
            "other, or need draws from a proposal that meets them more often (proposal=...)."
        )
    tilts, tilted_moments, ess, precise = _tilts(
        tilted,
        wanted,
        {name: column[possible] for name, column in columns.items()},
        log_weight[possible],
        len(draws),
    )
    exact = {
        feature.name: Estimate(wanted[feature], 0.0, wanted[feature], wanted[feature])
        for feature in pointwise
    }
    achieved = exact | tilted_moments
    return Constrained(
        given.base,
        factors=[
            *given.factors,
            *(Pointwise(feature if wanted[feature] == 1.0 else ~feature) for feature in pointwise),
            *tilts,
        ],
        watched=[*given.watched, *(f for f in pointwise if wanted[f] == 0.0)],
        constraints={feature.name: moment for feature, moment in wanted.items()},
        achieved={feature.name: achieved[feature.name] for feature in wanted},
        ess=ess,
        precise=precise,
    )


def _tilts(
    tilted: list[Feature],
    wanted: dict[Feature, float],
    columns: dict[str, NDArray[Any]],
    log_weight: Array,
    n: int,
) -> tuple[list[Tilt], dict[str, Estimate], float, bool]:
    """Return the tilts fitted on the possible draws, their moments, ESS, and if all are precise."""
    phi = np.empty((len(log_weight), len(tilted)))
    mu = np.array([wanted[feature] for feature in tilted])
    for j, feature in enumerate(tilted):
        column = columns[feature.name]
        phi[:, j] = column
        must_be_inside(feature, mu[j], phi[:, j], column.dtype == bool, n)
    coefficients, weight = _solved(tilted, phi, log_weight, mu)
    ess = kish_ess(1.0, float((weight**2).sum()))
    if tilted:  # a pointwise constraint has nothing to fit
        must_be_enough(ess, n)
    moments, precise = {}, True
    for j, feature in enumerate(tilted):
        boolean = columns[feature.name].dtype == bool
        bounds = (0.0, 1.0) if boolean else feature.bounds
        moment = weighted_mean(phi[:, j], log_weight + phi @ coefficients, n, bounds)
        spread = 1.0 if boolean else 2 * math.sqrt(float(weight @ (phi[:, j] - mu[j]) ** 2))
        reach = max(moment.high - moment.value, moment.value - moment.low)
        precise &= bool(moment.se <= PRECISE * spread and reach <= 2 * Z95 * PRECISE * spread)
        moments[feature.name] = moment
    tilts = [Tilt(feature, float(c)) for feature, c in zip(tilted, coefficients, strict=True)]
    return tilts, moments, ess, precise


def _checked(constraints: Mapping[Feature, float], given: Product) -> dict[Feature, float]:
    """Refuse also a feature that has a factor already: one of the two would not hold."""
    if not constraints:
        raise InputError("there are no constraints: give at least one feature and its moment.")
    wanted, factors = {}, {factor.feature.name for factor in given.factors}
    for feature, moment in constraints.items():
        check_feature(feature)
        wanted[feature] = number(f"the moment of {feature.name!r}", moment)
        if math.isinf(wanted[feature]):
            raise InputError(f"the moment of {feature.name!r} is {moment!r}, but must be finite.")
        if feature.name in factors:
            raise InputError(
                f"{feature.name!r} is wanted for, and is a factor of the base already: give one."
            )
    return wanted


def _column(feature: Feature, draws: Draws) -> NDArray[Any]:
    """Return the column of a feature: the one that the draws have, or asked of their items."""
    if feature.name in draws.features:
        return draws.features[feature.name]
    if draws.items is None:
        raise InputError(f"the draws have neither items nor a column for feature {feature.name!r}.")
    return feature(draws.items)


def _log_weights(given: Product, draws: Draws, met: NDArray[np.bool_]) -> Array:
    """Return log a(x) b(x)/q(x), with the factors b that are given; -inf where it is not `met`."""
    log_b = np.zeros(len(draws))
    for factor in given.factors:
        log_b += factor.log_factor(_column(factor.feature, draws))
    possible = met & (log_b > -np.inf)
    if np.isnan(draws.log_q[possible]).any():
        raise InputError(
            f"{int(np.isnan(draws.log_q[possible]).sum())} draws that the constraint allows have "
            "no log q: draw for a target that allows them, such as base * feature."
        )
    log_base = np.full(len(draws), np.nan) if draws.log_base is None else draws.log_base.copy()
    missing = np.flatnonzero(possible & np.isnan(log_base))
    if len(missing):
        if draws.items is None:
            raise InputError("the draws have neither log_base nor items to score.")
        log_base[missing] = given.base.log_prob(take(draws.items, missing))
    weight: Array = np.where(possible, log_base - draws.log_q + log_b, -np.inf)
    return weight


def _solved(tilted: list[Feature], phi: Array, log_weight: Array, mu: Array) -> tuple[Array, Array]:
    """Return lambda and the weights of the draws under p."""
    if not tilted:
        return np.empty(0), np.exp(log_weight - np.logaddexp.reduce(log_weight))
    solution = solve([(phi, log_weight)], mu)
    if solution is None:
        raise contradiction([feature.name for feature in tilted], phi, mu)
    return solution[0], solution[1][0]
