"""The curve of the trade-off: every estimate along beta, and the certificate at any beta."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from quasir.certificates.certificate import Certificate
from quasir.certificates.choice import certificate_at, chosen_by_estimate, chosen_by_promise
from quasir.certificates.doubts import Evidence, doubts_about
from quasir.certificates.evaluator import Evaluator
from quasir.certificates.figures import plot_curve
from quasir.certificates.limits import projection_of, proposal_of
from quasir.certificates.table import curve_html, curve_text
from quasir.core.arguments import LARGEST, as_log_beta, as_rate, number, show
from quasir.core.types import Array
from quasir.errors import InputError, UnreachableError
from quasir.estimation.estimate import Estimate
from quasir.estimation.promise import BOUNDS, Promises
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

    Examples
    --------
    >>> import quasir as qr
    >>> from scipy import stats
    >>> p, q = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))
    >>> curve = qr.tradeoff(qr.draw(p, q, 100_000, seed=0))
    >>> curve.at(tvd=0.1).beta < curve.at(tvd=0.01).beta
    True
    >>> bool((np.diff(curve.acceptance_rate.value) <= 0).all())
    True
    """

    def __init__(self, evaluator: Evaluator, log_betas: Array) -> None:
        levels = isinstance(log_betas, np.ndarray) and log_betas.dtype == np.float64
        if not isinstance(evaluator, Evaluator) or not levels or not _is_grid(log_betas):
            raise InputError("a curve is made by qr.tradeoff(draws, betas): use that.")
        self.evaluator = evaluator
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
        return self.evaluator.n

    @property
    def n_possible(self) -> int:
        """Draws with P(x) > 0."""
        return self.evaluator.n_possible

    @property
    def bin_width(self) -> float:
        """The distance in log between the betas of a streamed curve; 0 if any beta is possible."""
        return self.evaluator.ratios.width

    @property
    def ess(self) -> float:
        """Kish's effective sample size of the ratios."""
        return self.evaluator.ess

    @property
    def tail(self) -> Tail:
        """The fitted tail of the ratios; its ``k`` is Pareto k."""
        return self.evaluator.tail

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
            promised=self.tail.log_ceiling < math.inf,
        )
        return (*doubts_about(evidence), *self.evaluator.doubts)

    @cached_property
    def projection(self) -> Certificate:
        """The certificate of q_proj, q filtered to the support of P (appendix D)."""
        return projection_of(self.evaluator)

    @cached_property
    def proposal(self) -> Certificate:
        """The certificate of q itself; its bound is the trivial 1."""
        return proposal_of(self.evaluator)

    def __len__(self) -> int:
        return len(self.log_betas)

    def __iter__(self) -> Iterator[Certificate]:
        for i, promise in enumerate(self.promises):
            yield self.evaluator.certificate(self._points, i, promise=promise)

    @cached_property
    def promises(self) -> Promises:
        """The promises along the betas, each of confidence 0.95 for itself (docs/promises.md)."""
        return self.promised(0.95)

    def promised(self, confidence: float) -> Promises:
        """Return the promises along the betas, each of this confidence for itself."""
        return self.evaluator.promises(self.log_betas, number("confidence", confidence))

    def including(self, log_beta: float) -> Curve:
        """Return this curve with one more level, in order; itself if the level is there."""
        if not self.n_possible or log_beta in self.log_betas:
            return self
        return Curve(self.evaluator, np.union1d(self.log_betas, [log_beta]))

    def at(
        self,
        beta: float | None = None,
        *,
        log_beta: float | None = None,
        acceptance_rate: float | None = None,
        tvd: float | None = None,
        tvd_bound: float | None = None,
        kl: float | None = None,
        confidence: float | None = None,
    ) -> Certificate:
        """Return the certificate at a beta, or at the cheapest beta that meets a wish.

        Give exactly one argument, and `confidence` if you like. `acceptance_rate` chooses the
        largest beta that accepts at least that share: the best quality at that cost. `tvd`,
        `tvd_bound` and `kl` choose the smallest beta whose estimate is at most the wish: the lowest
        cost. A wish of 0 chooses the ceiling of the ratios, if one is known: there p_beta is
        exactly p.

        With `confidence`, `tvd` and `kl` choose the smallest beta at which the wish is promised:
        the true distance is above it in at most 1 - confidence of all runs, whenever you look
        (docs/promises.md). At any other beta, the confidence is that of its promise.

        On a streamed curve beta is the edge of a bin: the nearest to the given beta, or the
        cheapest that meets the wish.

        Raises
        ------
        UnreachableError
            If no beta within reach of the draws meets the wish.
        """
        sure = 0.95 if confidence is None else number("confidence", confidence)
        wishes = {"acceptance_rate": acceptance_rate, "tvd": tvd, "tvd_bound": tvd_bound, "kl": kl}
        given = {name: wish for name, wish in wishes.items() if wish is not None}
        if len(given) + (beta is not None) + (log_beta is not None) != 1:
            raise InputError(
                f"give exactly one of beta, log_beta, {', '.join(WISHES[:-1])} and {WISHES[-1]}."
            )
        if not given:
            return certificate_at(self.evaluator, as_log_beta(beta, log_beta), sure)
        name, wish = next(iter(given.items()))
        wanted = as_rate(wish) if name == "acceptance_rate" else _as_distance(name, wish)
        if not self.n_possible:
            raise UnreachableError(f"{name} = {wanted:g} cannot be met. {self.doubts[0]}")
        if name == "acceptance_rate" or confidence is None:
            return chosen_by_estimate(self.evaluator, name, wanted, sure)
        return chosen_by_promise(self.evaluator, name, wanted, sure)

    def columns(self) -> dict[str, Array]:
        """Return columns: beta, the value, se, low and high of every estimate, and promises."""
        columns = {"log_beta": self.log_betas, "beta": self.betas}
        for key, part in self.estimates.items():
            name = str(key)
            columns[name] = np.asarray(part.value)
            columns |= {
                f"{name}_{end}": np.asarray(getattr(part, end)) for end in ("se", "low", "high")
            }
        for name in BOUNDS:
            if (most := getattr(self.promises, name)) is not None:
                columns[f"{name}_promised"] = most
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
