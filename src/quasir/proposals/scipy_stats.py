"""Distributions of scipy.stats as targets and proposals; scipy.stats itself is not imported."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import check_request, reals, show
from quasir.core.items import check_items
from quasir.core.types import Array, Batch, Items
from quasir.errors import InputError
from quasir.proposals.inverse_cdf import InverseCdf

__all__ = ["from_scipy"]

TABLE = 1 << 16
"""Largest number of integers whose log probability is looked up instead of computed."""
FAR = 1e100
"""Numbers beyond this have probability 0 where scipy cannot compute it."""
NEGLIGIBLE = 1e-18
"""Largest mass to leave out at each end of the listed support: less than float64 rounding."""


def from_scipy(distribution: Any) -> ScipyDistribution:
    """Make a target and proposal of a frozen distribution of `scipy.stats`.

    The paper is about discrete distributions; a continuous one works as well, and P and q are then
    densities.

    Examples
    --------
    >>> from scipy import stats
    >>> from_scipy(stats.poisson(10)).log_prob(np.array([10])).round(4)
    array([-2.0786])
    """
    return ScipyDistribution(distribution)


class ScipyDistribution:
    """A frozen scipy distribution: `log_score`, `log_prob`, `sample`.

    A discrete distribution over few enough integers is drawn by inverting its cumulative
    probabilities, and scored by looking up, which is several times as fast as asking scipy.

    Examples
    --------
    >>> import quasir as qr
    >>> from scipy import stats
    >>> die = qr.from_scipy(stats.randint(1, 7))
    >>> items, log_q = die.sample(3, np.random.default_rng(0))
    >>> bool(np.allclose(np.exp(log_q), 1 / 6))
    True
    """

    def __init__(self, distribution: Any) -> None:
        log_pmf = getattr(distribution, "logpmf", None)
        log_density = log_pmf or getattr(distribution, "logpdf", None)
        if not callable(log_density) or not callable(getattr(distribution, "rvs", None)):
            raise InputError(
                f"from_scipy needs a frozen scipy distribution such as scipy.stats.poisson(10), "
                f"with logpmf (or logpdf) and rvs; a {type(distribution).__name__} lacks them."
            )
        # Only a distribution without its parameters can be called, to give them.
        if callable(distribution):
            raise InputError(
                f"{getattr(distribution, 'name', None) or type(distribution).__name__} has no "
                "parameters yet: from_scipy needs a frozen distribution, such as "
                "scipy.stats.poisson(10), not scipy.stats.poisson."
            )
        _check_parameters(distribution)
        self.density = log_pmf is None
        self.distribution = distribution
        self._log_density = log_density
        self._first: int | None = None
        self.support: Items = None
        if hasattr(distribution, "ppf") and hasattr(distribution, "logpmf"):
            self._tabulate()
        self.prefix_stable = self._first is not None

    def _tabulate(self) -> None:
        # scipy's rv_discrete may have values that are not integers; scipy handles those.
        if getattr(self.distribution.dist, "xk", None) is not None:
            return
        bounds = self._bounds()
        if bounds is None:
            return
        self._first = bounds[0]
        self.support = np.arange(bounds[0], bounds[1] + 1)
        self._log_pmf = np.asarray(self._log_density(self.support), dtype=np.float64)
        self._invert = InverseCdf(self.distribution.cdf(self.support))

    def _bounds(self) -> tuple[int, int] | None:
        """Return the ends of an interval with all but a negligible mass, or None if it is too wide.

        The interval grows around the median; scipy's own quantiles fail for so small a mass.
        """
        lowest, highest = self.distribution.support()
        median, reach = float(self.distribution.median()), 16
        if not abs(median) < 2**53:
            return None
        while reach < TABLE:
            low, high = max(median - reach, lowest), min(median + reach, highest)
            left = low > lowest and self.distribution.cdf(low - 1) > NEGLIGIBLE
            right = high < highest and self.distribution.sf(high) > NEGLIGIBLE
            if not left and not right:
                return int(low), int(high)
            reach *= 2
        return None

    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """Draw n items."""
        n = check_request(n, rng)
        if self._first is None:
            try:
                items = np.asarray(self.distribution.rvs(size=n, random_state=rng))
            except (ValueError, TypeError, ArithmeticError) as error:
                raise InputError(
                    f"scipy cannot draw from {self!r}: {error}. Use other parameters."
                ) from error
            return Batch(items, self.log_prob(items))
        place = self._invert(rng.random(n))
        return Batch(place + self._first, self._log_pmf[place])

    def log_prob(self, items: Items) -> Array:
        """Return the log of each item's probability, or density."""
        check_items(items)
        listed = items if isinstance(items, np.ndarray) and items.dtype != object else list(items)
        numbers = reals("items of a scipy distribution", listed)
        values = np.asarray(listed)
        if values.dtype.kind not in "iu" or values.max(initial=0) >= 2**63:
            values = numbers
        if self._first is None or values.dtype.kind not in "iu":
            return self._asked(values)
        values = values.astype(np.int64, copy=False)
        place = values - self._first
        outside = (place < 0) | (place >= len(self._log_pmf))
        some_outside = bool(outside.any())
        log_prob: Array = self._log_pmf[np.where(outside, 0, place) if some_outside else place]
        if some_outside:
            log_prob[outside] = self._asked(values[outside])
        return log_prob

    log_score = log_prob
    log_z = 0.0

    def _asked(self, values: NDArray[Any]) -> Array:
        """Ask scipy; far out in a tail it computes inf - inf, and the probability is 0."""
        with np.errstate(all="ignore"):
            log_prob = np.asarray(self._log_density(values), dtype=np.float64)
        if values.dtype.kind == "f" and values.ndim == 1:
            log_prob[np.isnan(log_prob) & (np.abs(values) > FAR)] = -np.inf
        return log_prob

    def __repr__(self) -> str:
        name = getattr(getattr(self.distribution, "dist", None), "name", "distribution")
        given = [show(x, 20) for x in getattr(self.distribution, "args", ())]
        named = getattr(self.distribution, "kwds", {}).items()
        given += [f"{key}={show(x, 20)}" for key, x in named]
        return f"<{name}({', '.join(given)}) of scipy.stats>"


def _check_parameters(distribution: Any) -> None:
    """Raise `InputError` for parameters that no distribution has, or for several at once."""
    support = getattr(distribution, "support", None)
    if not callable(support):
        return
    with np.errstate(all="ignore"):
        ends = np.asarray(support(), dtype=np.float64)
    if ends.shape != (2,) or np.isnan(ends).any():
        raise InputError(
            f"the parameters of {getattr(distribution.dist, 'name', 'the distribution')} are "
            f"{show(distribution.args)} {show(distribution.kwds)}, but must be single numbers "
            "that the distribution allows."
        )
