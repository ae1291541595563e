"""From a wish to the target that meets it and stays closest to the base in KL (section 3.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.certificates.tradeoff import tradeoff
from quasir.constraints.dual import solve
from quasir.constraints.feasibility import contradiction, must_be_enough, must_be_inside, must_fire
from quasir.core.arguments import number
from quasir.core.progress import Progress
from quasir.core.streams import Purpose, derived_seed, root_seed
from quasir.core.types import Array, Proposal, Seed
from quasir.draws.draw import draw
from quasir.draws.draws import Draws
from quasir.errors import InfeasibleError, InputError
from quasir.estimation.estimate import Z95, Estimate
from quasir.targets.factors import Factor, Pointwise, Tilt
from quasir.targets.feature import Feature
from quasir.targets.product import Product

__all__ = ["Constrained", "constrain"]


class Constrained(Product):
    """A target made by `constrain`.

    Attributes
    ----------
    wishes : dict
        Feature name -> the moment asked for.
    coefficients : dict
        Feature name -> lambda, for the distributional ones; pointwise ones have none.
    achieved : dict of Estimate
        The moments of p. The value is that on the fitting draws; the standard error is what
        their finite number leaves in the true moment of p.
    ess : float
        Effective number of draws behind the coefficients.
    """

    def __init__(
        self,
        base: Any,
        factors: list[Factor],
        watched: list[Feature],
        wishes: dict[str, float],
        achieved: dict[str, Estimate],
        ess: float,
    ) -> None:
        super().__init__(base, factors, watched)
        self.wishes, self.achieved, self.ess = wishes, achieved, ess
        self.coefficients = {
            factor.feature.name: factor.coefficient
            for factor in factors
            if isinstance(factor, Tilt)
        }

    def check(
        self,
        n: int = 100_000,
        seed: Seed = None,
        proposal: Proposal | None = None,
        progress: Progress = False,
    ) -> dict[str, Estimate]:
        """Return the moments of p on fresh draws, from the base or a better proposal.

        They are independent of the draws of `constrain`, and of those that `draw` and the samplers
        make with the same seed.
        """
        own = derived_seed(root_seed(seed), Purpose.CHECK)
        draws = draw(self, proposal or self.base, n, seed=own, progress=progress)
        curve = tradeoff(draws)
        # At the largest ratio nothing is cut off: p_beta is p, on these draws.
        moments = curve.at(log_beta=float(draws.log_ratio.max())).moments
        return {name: moments[name] for name in self.wishes}

    def __str__(self) -> str:
        lines = [f"{'feature':<24} {'wished':>8}  {'lambda':>9}  achieved"]
        for name, wish in self.wishes.items():
            coefficient = self.coefficients.get(name)
            shown = "pointwise" if coefficient is None else f"{coefficient:.4f}"
            lines.append(f"{name:<24} {wish:>8.4g}  {shown:>9}  {self.achieved[name]}")
        return "\n".join([*lines, f"from an effective {self.ess:,.0f} draws"])


def constrain(
    base: Any,
    wishes: Mapping[Feature, float],
    n: int = 100_000,
    seed: Seed = None,
    *,
    proposal: Proposal | None = None,
    draws: Draws | None = None,
    progress: Progress = False,
) -> Constrained:
    """Return the target that has the wished moments and is closest to the base in KL.

    A boolean feature asked at 0 or 1 is pointwise: it holds for every item, whatever else is
    asked. The others are distributional: p(x) ~ a(x) exp(lambda . phi(x)) on what is left, with
    lambda from n draws by the convex dual.

    Parameters
    ----------
    base : object with ``log_prob`` and ``sample``
        a(x).
    wishes : mapping
        Feature -> the mean that it should have.
    n, seed : int
        Draws to fit on, from the base, or from `proposal`. They are independent of the draws that
        `draw` makes with the same seed, so that what is fitted and what certifies it do not share
        any.
    proposal : Proposal, optional
        Where the base meets the wishes too rarely: another model to draw from, weighted by a/q.
    draws : Draws, optional
        Draws at hand instead, with items, or with a column for each feature.
    progress : bool or callable

    Raises
    ------
    InfeasibleError
        Where the wishes cannot be met, contradict each other, or have too few draws behind them.

    Examples
    --------
    >>> import quasir as qr
    >>> base = qr.Table({"he": 0.7, "she": 0.2, "they": 0.1})
    >>> she = qr.Feature("she", lambda x: x == "she")
    >>> they = qr.Feature("they", lambda x: x == "they")
    >>> target = qr.constrain(base, {they: 0.0, she: 0.5}, n=10_000, seed=0)
    >>> np.exp(target.log_score(["they"])), target.achieved["she"].value.round(6)
    (array([0.]), np.float64(0.5))
    """
    wanted = _checked(wishes)
    draws, columns = _fitting_draws(base, wanted, n, seed, proposal, draws, progress)
    log_weight = _log_weights(base, draws)
    possible = log_weight > -np.inf
    factors: list[Factor] = []
    watched: list[Feature] = []
    achieved: dict[str, Estimate] = {}
    tilted: list[Feature] = []
    for feature, wish in wanted.items():
        column = columns[feature.name]
        if column.dtype == bool and wish in (0.0, 1.0):
            asked = column if wish == 1.0 else ~column
            must_fire(feature, wish, asked)
            possible &= asked
            factors.append(Pointwise(feature if wish == 1.0 else ~feature))
            if wish == 0.0:
                watched.append(feature)
            achieved[feature.name] = Estimate(wish, 0.0, wish, wish)
        else:
            tilted.append(feature)
    if not possible.any():
        names = ", ".join(repr(f.name) for f in wanted if f not in tilted)
        raise InfeasibleError(
            f"{names} hold together for none of {len(draws):,} draws: they may contradict each "
            "other, or need draws from a proposal that meets them more often (proposal=...)."
        )
    phi = (
        np.column_stack([columns[f.name][possible] for f in tilted]).astype(np.float64)
        if (tilted)
        else np.empty((int(possible.sum()), 0))
    )
    mu = np.array([wanted[f] for f in tilted])
    for j, feature in enumerate(tilted):
        must_be_inside(feature, mu[j], phi[:, j], columns[feature.name].dtype == bool, len(draws))
    coefficients, weight = _solved(tilted, phi, log_weight[possible], mu)
    ess = 1.0 / float((weight**2).sum())
    if tilted:  # a pointwise wish has nothing to fit
        must_be_enough(ess, len(draws))
    for j, feature in enumerate(tilted):
        factors.append(Tilt(feature, float(coefficients[j])))
        mean = weight @ phi[:, j]
        se = math.sqrt(float((weight**2) @ (phi[:, j] - mean) ** 2))
        achieved[feature.name] = Estimate(mean, se, mean - Z95 * se, mean + Z95 * se)
    by_name = {feature.name: wish for feature, wish in wanted.items()}
    return Constrained(
        base, factors, watched, by_name, {name: achieved[name] for name in by_name}, ess
    )


def _checked(wishes: Mapping[Feature, float]) -> dict[Feature, float]:
    if not wishes:
        raise InputError("there are no wishes: give at least one feature and its moment.")
    wanted = {}
    for feature, wish in wishes.items():
        if not isinstance(feature, Feature):
            raise InputError(
                f"a wish is for a Feature, not for a {type(feature).__name__}: "
                "make one with qr.features, or qr.Feature(name, function)."
            )
        value = number(f"the moment of {feature.name!r}", wish)
        if math.isinf(value):
            raise InputError(f"the moment of {feature.name!r} is {wish!r}, but must be finite.")
        wanted[feature] = value
    return wanted


def _fitting_draws(
    base: Any,
    wanted: dict[Feature, float],
    n: int,
    seed: Seed,
    proposal: Proposal | None,
    draws: Draws | None,
    progress: Progress,
) -> tuple[Draws, dict[str, NDArray[Any]]]:
    """Return draws, and a column for each feature."""
    if draws is not None and proposal is not None:
        raise InputError("give draws or a proposal to draw from, not both.")
    if draws is None:
        watching = Product(base, watched=list(wanted))
        own = derived_seed(root_seed(seed), Purpose.FIT)
        draws = draw(watching, proposal or base, n, seed=own, progress=progress)
    columns: dict[str, NDArray[Any]] = {}
    for feature in wanted:
        if feature.name in draws.features:
            columns[feature.name] = draws.features[feature.name]
        elif draws.items is not None:
            columns[feature.name] = feature(draws.items)
        else:
            raise InputError(
                f"the draws have neither items nor a column for feature {feature.name!r}."
            )
    return draws, columns


def _log_weights(base: Any, draws: Draws) -> Array:
    """Return log a(x)/q(x)."""
    log_base = draws.log_base
    if log_base is None or np.isnan(log_base).any():
        if draws.items is None:
            raise InputError(
                "the draws have neither log_base nor items to score: log a(x) is needed for each."
            )
        log_base = np.asarray(base.log_prob(draws.items), dtype=np.float64)
    return log_base - draws.log_q


def _solved(tilted: list[Feature], phi: Array, log_weight: Array, mu: Array) -> tuple[Array, Array]:
    """Return lambda and the weights of the draws under p."""
    if not tilted:
        return np.empty(0), np.exp(log_weight - np.logaddexp.reduce(log_weight))
    solution = solve(phi, log_weight, mu)
    if solution is None:
        raise contradiction([feature.name for feature in tilted], phi, mu)
    return solution
