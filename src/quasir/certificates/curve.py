"""The curve of the trade-off: every estimate along beta, and the certificate at any beta."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from quasir.certificates.certificate import Certificate
from quasir.certificates.doubts import Evidence, doubts_about
from quasir.certificates.evaluator import Evaluator
from quasir.certificates.figures import plot_curve
from quasir.certificates.limits import projection_of, proposal_of
from quasir.certificates.search import (
    ENOUGH_ABOVE,
    largest_accepting,
    smallest_meeting,
    what_it_takes,
)
from quasir.certificates.table import curve_html, curve_text
from quasir.core.arguments import LARGEST, as_log_beta, as_rate, number, show
from quasir.core.formatting import level_text
from quasir.core.types import Array
from quasir.errors import InputError, UnreachableError
from quasir.estimation.estimate import Estimate
from quasir.estimation.quantities import QUANTITIES, WISHES, Moment
from quasir.estimation.tail import Tail

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Curve"]


class Curve:
    """Estimates along beta; `at` returns the certificate at any beta, on the grid or not.

    Every quantity of `quasir.estimation.quantities` is an attribute, an `Estimate` of arrays along
    `log_betas`; `Certificate` explains them. `kl_base` is None where no base is known.

    Attributes
    ----------
    n : int
        Draws behind the estimates.
    log_betas : array
        The levels.
    estimates : dict of Estimate of arrays
        Keyed by the name of the quantity, or by `Moment` for the mean of a feature.
    n_above : array
        Draws above each beta.
    tail : Tail
        The fitted tail of the ratios.
    tvd_slack : array
        How far `tvd` may be from its value on all the draws: 0 unless the curve was streamed.
    """

    def __init__(self, evaluator: Evaluator, log_betas: Array) -> None:
        levels = isinstance(log_betas, np.ndarray) and log_betas.dtype == np.float64
        if not isinstance(evaluator, Evaluator) or not levels or not _is_grid(log_betas):
            raise InputError("a curve is made by qr.tradeoff(draws, betas): use that.")
        self._evaluator = evaluator
        self.log_betas = log_betas
        self._points = evaluator.points(log_betas)
        self.estimates = self._points.estimates
        self.n_above, self.tvd_slack = self._points.n_above, self._points.tvd_slack

    def __getattr__(self, name: str) -> Any:
        if name not in QUANTITIES:
            raise AttributeError(f"a curve has no {name!r}: it has {', '.join(QUANTITIES)}")
        return self.estimates.get(name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *QUANTITIES]

    @property
    def moments(self) -> dict[str, Estimate]:
        """The mean of each feature under p_beta, along the betas."""
        return {key.feature: e for key, e in self.estimates.items() if isinstance(key, Moment)}

    @property
    def betas(self) -> Array:
        """The levels; if they are out of a float's range, see `log_betas`."""
        with np.errstate(over="ignore"):
            return np.exp(self.log_betas)

    @property
    def n(self) -> int:
        """All draws."""
        return self._evaluator.n

    @property
    def n_possible(self) -> int:
        """Draws with P(x) > 0."""
        return self._evaluator.n_possible

    @property
    def bin_width(self) -> float:
        """The distance in log between the betas of a streamed curve; 0 if any beta is possible."""
        return self._evaluator.ratios.width

    @property
    def ess(self) -> float:
        """Kish's effective sample size of the ratios."""
        return self._evaluator.ess

    @property
    def tail(self) -> Tail:
        """The fitted tail of the ratios; its ``k`` is Pareto k."""
        return self._evaluator.tail

    @property
    def doubts(self) -> tuple[str, ...]:
        """What is wrong with the draws at every beta; a certificate adds the doubts at its own."""
        many = math.inf if self.n_possible else 0.0
        evidence = Evidence(
            log_beta=0.0,
            n=self.n,
            n_possible=self.n_possible,
            n_above=many,
            accepted=many,
            ess=self.ess,
            tail=self.tail,
        )
        return (*doubts_about(evidence), *self._evaluator.doubts)

    @cached_property
    def projection(self) -> Certificate:
        """The certificate of q_proj, q filtered to the support of P (appendix D)."""
        return projection_of(self._evaluator)

    @cached_property
    def proposal(self) -> Certificate:
        """The certificate of q itself; its bound is the trivial 1."""
        return proposal_of(self._evaluator)

    def __len__(self) -> int:
        return len(self.log_betas)

    def __iter__(self) -> Iterator[Certificate]:
        return (self._evaluator.certificate(self._points, i) for i in range(len(self)))

    def including(self, log_beta: float) -> Curve:
        """Return this curve with one more level, in order; itself if the level is there."""
        if not self.n_possible or log_beta in self.log_betas:
            return self
        return Curve(self._evaluator, np.union1d(self.log_betas, [log_beta]))

    def at(
        self,
        beta: float | None = None,
        *,
        log_beta: float | None = None,
        acceptance_rate: float | None = None,
        tvd: float | None = None,
        tvd_bound: float | None = None,
        kl: float | None = None,
    ) -> Certificate:
        """Return the certificate at a beta, or at the cheapest beta that meets a wish.

        Give exactly one argument. `acceptance_rate` chooses the largest beta that accepts at
        least that share: the best quality at that cost. `tvd`, `tvd_bound` and `kl` choose the
        smallest beta whose estimate is at most the wish: the lowest cost. A wish of 0 chooses the
        ceiling of the ratios, if one is known: there p_beta is exactly p.

        On a streamed curve beta is the edge of a bin: the nearest to the given beta, or the
        cheapest that meets the wish.

        Raises
        ------
        UnreachableError
            If no beta within reach of the draws meets the wish.
        """
        wishes = {"acceptance_rate": acceptance_rate, "tvd": tvd, "tvd_bound": tvd_bound, "kl": kl}
        given = {name: wish for name, wish in wishes.items() if wish is not None}
        if len(given) + (beta is not None) + (log_beta is not None) != 1:
            raise InputError(
                f"give exactly one of beta, log_beta, {', '.join(WISHES[:-1])} and {WISHES[-1]}."
            )
        if not given:
            return self._at(as_log_beta(beta, log_beta))
        name, wish = next(iter(given.items()))
        wanted = as_rate(wish) if name == "acceptance_rate" else _as_distance(name, wish)
        if not self.n_possible:
            raise UnreachableError(f"{name} = {wanted:g} cannot be met. {self.doubts[0]}")
        ratios = self._evaluator.ratios
        if name == "acceptance_rate":
            found = largest_accepting(ratios, wanted)
        else:
            found = smallest_meeting(ratios, lambda b: self._evaluator.values(name, b), wanted)
            if wanted == 0 and self.tail.log_ceiling < math.inf:
                found = self._ceiling
        if found is None:
            raise self._unreachable(name, wanted)
        return self._at(found)

    @property
    def _ceiling(self) -> float:
        """The lowest level that no ratio exceeds."""
        return float(self._evaluator.ratios.snap(np.array([self.tail.log_ceiling]), np.ceil)[0])

    def _at(self, log_beta: float) -> Certificate:
        level = self._evaluator.ratios.snap(np.array([log_beta]))
        return self._evaluator.certificate(self._evaluator.points(level))

    def _unreachable(self, name: str, wanted: float) -> UnreachableError:
        ratios, possible = self._evaluator.ratios, self.n_possible
        advice = "Use a proposal closer to the target, or relax the wish."
        if name == "acceptance_rate":
            best = self.projection
            return UnreachableError(
                f"acceptance_rate = {wanted:g} cannot be met: only {possible:,} of {self.n:,} "
                f"draws ({best.acceptance_rate.value:.4g}) have P(x) > 0, which is the limit for "
                f"beta -> 0. {advice}",
                best,
            )
        if possible < ENOUGH_ABOVE:
            return UnreachableError(
                f"{name} = {wanted:g} cannot be promised: only {possible} of {self.n:,} draws "
                f"have P(x) > 0. Draw more. {advice}",
                self._at(ratios.level(0)),
            )
        best = self._at(ratios.level(max(ratios.reach(ENOUGH_ABOVE), 0)))
        part: Estimate = getattr(best, name)
        more = what_it_takes(name, wanted, self.tail, best.log_z.value)
        if self.tail.log_ceiling < math.inf:
            rate = self._at(self._ceiling).acceptance_rate.value
            advice += (
                f" At beta = {level_text(self._ceiling)}, which no ratio exceeds, the samples are "
                f"exactly the target's, at an acceptance rate of {rate:.3g}: ask for {name} = 0."
            )
        return UnreachableError(
            f"{name} = {wanted:g} cannot be promised: it needs a beta above which fewer than "
            f"{ENOUGH_ABOVE} of {self.n:,} draws lie. The best these draws can vouch for is "
            f"{part.value:.3g} [{part.low:.3g}, {part.high:.3g}], at beta = "
            f"{level_text(best.log_beta)} and acceptance rate {best.acceptance_rate.value:.3g}. "
            f"{more or 'How many draws would show it cannot be said.'} {advice}",
            best,
        )

    def columns(self) -> dict[str, Array]:
        """Return columns: log_beta, beta, and the value, se, low and high of every estimate."""
        columns = {"log_beta": self.log_betas, "beta": self.betas}
        for key, part in self.estimates.items():
            name = str(key)
            columns[name] = np.asarray(part.value)
            columns |= {
                f"{name}_{end}": np.asarray(getattr(part, end)) for end in ("se", "low", "high")
            }
        return columns

    def to_frame(self) -> Any:
        """Return a pandas DataFrame of `columns`, with one row for each beta."""
        try:
            import pandas as pd
        except ImportError as error:
            raise InputError("to_frame needs pandas: pip install 'quasir[pandas]'.") from error
        return pd.DataFrame(self.columns())

    def plot(self) -> Figure:
        """Return a matplotlib figure of quality against acceptance rate, with intervals."""
        return plot_curve(self)

    def __str__(self) -> str:
        return curve_text(self)

    def __repr__(self) -> str:
        return f"<Curve: {len(self)} betas from {self.n:,} draws>"

    def _repr_html_(self) -> str:
        return curve_html(self)


def _is_grid(log_betas: Array) -> bool:
    return log_betas.ndim == 1 and len(log_betas) > 0 and bool((np.abs(log_betas) <= LARGEST).all())


def _as_distance(name: str, wish: Any) -> float:
    wanted, quantity = number(name, wish), QUANTITIES[name]
    if not quantity.low <= wanted <= quantity.high:
        raise InputError(f"{name} is {show(wish)}, which is out of its range.")
    return wanted
