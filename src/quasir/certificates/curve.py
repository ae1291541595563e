"""The trade-off: the cost and the quality of QRS at every beta, from one set of draws."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from quasir.certificates.certificate import Certificate
from quasir.certificates.choice import certificate_at, check_option, choose, largest_accepting
from quasir.certificates.evaluator import Evaluator, Points, SortedDraws, SummarisedDraws
from quasir.certificates.figures import curve_html, curve_text, plot_curve
from quasir.certificates.warnings import warnings_about
from quasir.core.arguments import as_log_beta, as_log_betas, check_bool, number
from quasir.core.formatting import to_pandas
from quasir.core.progress import Progress
from quasir.core.types import Array
from quasir.draws.ceiling import BaseCheck, RatioBounds
from quasir.draws.draws import Draws
from quasir.errors import InputError, UnreachableError
from quasir.estimation.estimate import Estimate, Key
from quasir.estimation.guarantee import Guarantee
from quasir.estimation.quantities import GUARANTEED, OPTIONS, QUANTITIES, Estimated
from quasir.estimation.summary import Summary, summarise
from quasir.store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 200
STREAMED = 20_000_000
"""A store of more draws than this is streamed: to sort them would take over a gigabyte."""


class Curve(Estimated):
    """Estimates along beta; `at` returns the certificate at any beta, on the grid or not.

    Every quantity of `quasir.estimation.quantities` is an attribute, an `Estimate` of arrays along
    `log_betas`; `Certificate` explains them. They are computed when they are first looked at.

    Attributes
    ----------
    n, n_possible : int
        All draws, and those with P(x) > 0.
    ess : float
        Kish's effective sample size of the ratios.
    tail : Tail
        The fitted tail of the ratios; its ``k`` is Pareto k.
    bin_width : float
        The distance in log between the betas of a streamed curve; 0 if any beta is possible.

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

    def __init__(self, evaluator: Evaluator, log_betas: Array | None = None) -> None:
        self.evaluator = evaluator
        self.n, self.n_possible, self.ess = evaluator.n, evaluator.n_possible, evaluator.ess
        self.tail, self.bin_width = evaluator.tail, evaluator.ratios.width
        if log_betas is not None:
            self.log_betas = log_betas

    @cached_property
    def log_betas(self) -> Array:
        """The levels; by default 200, up to the largest ratio."""
        return _default_levels(self.evaluator)

    @cached_property
    def _points(self) -> Points:
        return self.evaluator.points(self.log_betas)

    @cached_property
    def estimates(self) -> Mapping[Key, Estimate]:  # type: ignore[override]
        """Every estimate along the betas, by quantity, or by `Moment` for the mean of a feature."""
        return self._points.estimates

    @property
    def n_above(self) -> Array:
        """Draws above each beta."""
        return self._points.n_above

    @property
    def tvd_slack(self) -> Array:
        """How far `tvd` may be from its value on all the draws: 0 unless the curve was streamed."""
        return self._points.tvd_slack

    @property
    def betas(self) -> Array:
        """The levels; if they are out of a float's range, see `log_betas`."""
        with np.errstate(over="ignore"):
            return np.exp(self.log_betas)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong with the draws at every beta; a certificate adds those at its own."""
        bounded = self.tail.log_ceiling < math.inf
        return (*warnings_about(self.evaluator, guaranteed=bounded), *self.evaluator.warnings)

    @cached_property
    def projection(self) -> Certificate:
        """The certificate of q_proj, q filtered to the support of P (appendix D)."""
        return self.evaluator.limit(everything=False)

    @cached_property
    def proposal(self) -> Certificate:
        """The certificate of q itself; its bound is the trivial 1."""
        return self.evaluator.limit(everything=True)

    def __len__(self) -> int:
        return len(self.log_betas)

    def __iter__(self) -> Iterator[Certificate]:
        for i in range(len(self)):
            yield self.evaluator.certificate(self._points, i, guarantee=self.guarantees[i])

    @cached_property
    def guarantees(self) -> Guarantee:
        """The anytime-valid bounds along the betas, each of confidence 0.95."""
        return self.guaranteed(0.95)

    def guaranteed(self, confidence: float) -> Guarantee:
        """Return the anytime-valid bounds along the betas, each of this confidence by itself."""
        return self.evaluator.guarantees(self.log_betas, number("confidence", confidence))

    def including(self, log_beta: float) -> Curve:
        """Return this curve with one more level, in order; itself if the level is there."""
        if not self.n_possible or log_beta in self.log_betas:
            return self
        return Curve(self.evaluator, np.union1d(self.log_betas, [log_beta]))

    def at(
        self, beta: float | None = None, *, confidence: float | None = None, **option: float | None
    ) -> Certificate:
        """Return the certificate at a beta, or at the cheapest beta that gives what is asked for.

        Give exactly one of `beta`, `log_beta`, `acceptance_rate`, `tvd`, `truncated_mass`,
        `tvd_bound` and `kl`, and `confidence` if you like. `acceptance_rate` chooses the largest
        beta that accepts at least that share: the best quality at that cost. The distances choose
        the smallest beta whose estimate is at most the given number: the lowest cost. 0 chooses the
        ceiling of the ratios, if one is known: there p_beta is exactly p.

        With `confidence`, `tvd`, `truncated_mass` and `kl` choose the smallest beta at which the
        number is guaranteed: the true distance is above it in at most 1 - confidence of all runs,
        whenever you look (docs/records/proofs.md). At any other beta, the confidence is that of its
        guarantee.

        On a streamed curve beta is the edge of a bin: the nearest to the given beta, or the
        cheapest that gives what is asked for.

        Raises
        ------
        UnreachableError
            If no beta within reach of the draws gives it.
        """
        sure = None if confidence is None else number("confidence", confidence)
        given = {name: x for name, x in {"beta": beta, **option}.items() if x is not None}
        if len(given) != 1 or not OPTIONS.keys() >= {*given, *option}:
            *most, last = OPTIONS
            unknown = [f"{name} is not known: " for name in option if name not in OPTIONS]
            raise InputError(f"{''.join(unknown)}give exactly one of {', '.join(most)} and {last}.")
        ((name, value),) = given.items()
        wanted = check_option(name, value)
        if name not in QUANTITIES:
            return certificate_at(
                self.evaluator, as_log_beta(**given), 0.95 if sure is None else sure
            )
        if not self.n_possible:
            raise UnreachableError(f"{name} = {wanted:g} cannot be met. {self.warnings[0]}")
        return choose(self.evaluator, name, wanted, sure)

    def columns(self) -> dict[str, Array]:
        """Return columns: beta, the value, se, low and high of every estimate, and guarantees."""
        columns = {"log_beta": self.log_betas, "beta": self.betas}
        for key, part in self.estimates.items():
            columns[str(key)] = np.asarray(part.value)
            for end in ("se", "low", "high"):
                columns[f"{key}_{end}"] = np.asarray(getattr(part, end))
        for name in GUARANTEED:
            if (most := getattr(self.guarantees, name)) is not None:
                columns[f"{name}_guaranteed"] = most
        return columns

    def to_frame(self) -> Any:
        """Return a pandas DataFrame of `columns`, with one row for each beta."""
        return to_pandas(self.columns())

    def plot(self) -> Figure:
        """Return a matplotlib figure of quality against acceptance rate, with intervals."""
        return plot_curve(self)

    def __str__(self) -> str:
        return curve_text(self)

    def __repr__(self) -> str:
        return f"<Curve: {len(self)} betas from {self.n:,} draws>"

    def _repr_html_(self) -> str:
        return curve_html(self)


def _at_signature() -> inspect.Signature:
    """Return the arguments of `Curve.at` by name, for help and for editors."""
    own = inspect.signature(Curve.at, eval_str=True)
    *before, _ = own.parameters.values()
    one = before[1].replace(kind=inspect.Parameter.KEYWORD_ONLY)
    options = [one.replace(name=name) for name in OPTIONS if name != "beta"]
    return own.replace(parameters=[*before[:2], *options, before[2]])


vars(Curve)["at"].__signature__ = _at_signature()


def tradeoff(
    draws: Draws | Store | str | Path,
    betas: ArrayLike | None = None,
    *,
    log_betas: ArrayLike | None = None,
    stream: bool | None = None,
    progress: Progress = None,
) -> Curve:
    """Estimate everything the paper estimates, at every beta.

    Parameters
    ----------
    draws : Draws, Store, or the folder of a run
        From `draw` or `Draws.from_arrays`, or on disk.
    betas, log_betas : array, optional
        The levels; by default 200, evenly spaced in log, from where the acceptance rate begins
        to fall up to the largest ratio seen.
    stream : bool, optional
        Whether to reduce draws on disk to summaries, shard by shard, instead of loading them: it
        then takes the memory of a few shards, for any number of draws. By default, above 20
        million draws.
    progress : bool or callable
        For streaming: True shows a line on stderr, a callable is called with (done, n, done).

    Notes
    -----
    A streamed curve knows the ratios by bins, and its betas are edges of bins: a given beta moves
    to the nearest edge, at most half a bin's width away in log, and `Curve.log_betas` has the
    edges. There every estimate is that of all the draws, except TVD,
    which is known to within `Curve.tvd_slack`; its interval allows for that.

    Examples
    --------
    >>> import quasir as qr
    >>> target = qr.Table({"a": 0.5, "b": 0.3, "c": 0.2})
    >>> proposal = qr.Table({"a": 0.2, "b": 0.3, "c": 0.5})
    >>> curve = qr.tradeoff(qr.draw(target, proposal, 10_000, seed=0))
    >>> cert = curve.at(tvd=0.05)
    >>> round(cert.tvd.value, 6)
    0.05
    """
    if stream is not None:
        check_bool("stream", stream)
    if isinstance(draws, Draws):
        if stream:
            raise InputError("only draws on disk can be streamed: give the folder of a run.")
        return curve_of(SortedDraws(draws), betas, log_betas)
    store = Store.open(draws) if isinstance(draws, (str, Path)) else draws
    if not isinstance(store, Store):
        raise InputError(
            f"draws are a {type(store).__name__}, but must be Draws, a Store or a run's folder."
        )
    evaluator: Evaluator
    if is_large(store) if stream is None else stream:
        evaluator = summarised_draws(store, summarise(store, progress=progress))
    else:
        evaluator = SortedDraws(Draws.load(store, items=False))
    return curve_of(evaluator, betas, log_betas)


def is_large(store: Store) -> bool:
    """Return whether a store is streamed by default."""
    return len(store) > STREAMED


def summarised_draws(store: Store, summary: Summary) -> SummarisedDraws:
    """Return a store's draws by their summary, with what its manifest knows."""
    known = RatioBounds.from_dict(store.manifest.known)
    check = BaseCheck.from_dict(store.manifest.base_check)
    return SummarisedDraws(summary, store.warnings, known, check)


def curve_of(
    evaluator: Evaluator, betas: ArrayLike | None = None, log_betas: ArrayLike | None = None
) -> Curve:
    """Return the curve of draws in either form, by default on 200 levels."""
    if betas is None and log_betas is None:
        return Curve(evaluator)
    return Curve(evaluator, evaluator.ratios.snap(as_log_betas(betas, log_betas)))


def _default_levels(evaluator: Evaluator) -> Array:
    """Return 200 levels from where the acceptance rate begins to fall to the largest ratio."""
    if not evaluator.n_possible:
        return np.zeros(1)
    top = evaluator.ratios.log_max
    start = largest_accepting(evaluator.ratios, 0.99 * evaluator.n_possible / evaluator.n)
    start = evaluator.ratios.level(0) if start is None else start
    if start >= top:
        return evaluator.ratios.snap(np.array([top]), np.ceil)
    grid = np.linspace(start, top, POINTS)
    grid[-1] = top
    if evaluator.ratios.exact_between:
        return grid
    # Levels moved to edges of bins may coincide; the last must not be below the largest ratio.
    snapped = evaluator.ratios.snap(grid)
    snapped[-1] = evaluator.ratios.snap(grid[-1:], np.ceil)[0]
    return np.unique(snapped)
