"""A target that was made from wishes, and what it achieved."""

from __future__ import annotations

from typing import Any

from quasir.certificates.tradeoff import tradeoff
from quasir.core.progress import Progress
from quasir.core.streams import Purpose, derived_seed, root_seed
from quasir.core.types import Proposal, Seed
from quasir.draws.draw import draw
from quasir.estimation.estimate import Estimate
from quasir.targets.factors import Factor, Tilt
from quasir.targets.feature import Feature
from quasir.targets.product import Product

__all__ = ["Constrained"]


class Constrained(Product):
    """A target made by `constrain`.

    Attributes
    ----------
    wishes : dict
        Feature name -> the wished moment.
    coefficients : dict
        Feature name -> the fitted lambda; a pointwise feature has none.
    achieved : dict of Estimate
        The moments of p. The value is the moment on the fitting draws; the standard error is the
        uncertainty of the true moment of p, because those draws are finitely many.
    ess : float
        Effective number of draws that the coefficients were fitted on.
    precise : bool
        Whether the standard error of every moment is at most 0.005 of its feature's range.

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
        wishes: dict[str, float],
        achieved: dict[str, Estimate],
        ess: float,
        precise: bool,
    ) -> None:
        super().__init__(base, factors, watched)
        self.wishes, self.achieved, self.ess, self.precise = wishes, achieved, ess, precise
        self.coefficients = {
            factor.feature.name: factor.coefficient
            for factor in factors
            if isinstance(factor, Tilt) and factor.feature.name in wishes
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
        own = derived_seed(root_seed(seed), Purpose.CHECK)
        draws = draw(self, proposal or self.base, n, seed=own, progress=progress)
        curve = tradeoff(draws)
        # At the largest ratio no ratio is cut: p_beta is p, on these draws.
        moments = curve.at(log_beta=float(draws.log_ratio.max())).moments
        return {name: moments[name] for name in self.wishes}

    def __str__(self) -> str:
        lines = [f"{'feature':<24} {'wished':>8}  {'lambda':>9}  achieved"]
        for name, wish in self.wishes.items():
            coefficient = self.coefficients.get(name)
            shown = "pointwise" if coefficient is None else f"{coefficient:.4f}"
            lines.append(f"{name:<24} {wish:>8.4g}  {shown:>9}  {self.achieved[name]}")
        return "\n".join([*lines, f"from an effective {self.ess:,.0f} draws"])
