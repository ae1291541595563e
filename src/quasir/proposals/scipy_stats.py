"""Distributions of scipy.stats as targets and proposals; scipy.stats itself is not imported."""

from __future__ import annotations

from typing import Any

import numpy as np

from quasir.core.types import Array, Batch, Items
from quasir.errors import InputError
from quasir.proposals.inverse_cdf import InverseCdf

__all__ = ["from_scipy"]

TABLE = 1 << 16
"""Largest number of integers whose log probability is looked up instead of computed."""
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
    """

    def __init__(self, distribution: Any) -> None:
        log_density = getattr(distribution, "logpmf", None) or getattr(distribution, "logpdf", None)
        if not callable(log_density) or not callable(getattr(distribution, "rvs", None)):
            raise InputError(
                f"from_scipy needs a frozen scipy distribution such as scipy.stats.poisson(10), "
                f"with logpmf (or logpdf) and rvs; a {type(distribution).__name__} lacks them."
            )
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
        if not np.isfinite(median):
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
        if self._first is None:
            items = np.asarray(self.distribution.rvs(size=n, random_state=rng))
            return Batch(items, self.log_prob(items))
        place = self._invert(rng.random(n))
        return Batch(place + self._first, self._log_pmf[place])

    def log_prob(self, items: Items) -> Array:
        """Return the log of each item's probability, or density."""
        values = np.asarray(items)
        if self._first is None or values.dtype.kind not in "iu":
            return np.asarray(self._log_density(values), dtype=np.float64)
        place = values - self._first
        outside = (place < 0) | (place >= len(self._log_pmf))
        some_outside = bool(outside.any())
        log_prob: Array = self._log_pmf[np.where(outside, 0, place) if some_outside else place]
        if some_outside:
            log_prob[outside] = self._log_density(values[outside])
        return log_prob

    log_score = log_prob

    def __repr__(self) -> str:
        name = getattr(getattr(self.distribution, "dist", None), "name", "distribution")
        return f"<{name} of scipy.stats>"
