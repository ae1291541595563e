"""Distributions of scipy.stats as targets and proposals; scipy.stats itself is not imported."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import check_request, reals
from quasir.core.formatting import short_repr
from quasir.core.items import check_items
from quasir.core.types import Array, Batch, Items
from quasir.errors import InputError
from quasir.proposals.table import InverseCdf

TABLE = 1 << 16  # largest number of integers whose log probability is looked up instead of computed
FAR = 1e100  # numbers beyond this have probability 0 where scipy cannot compute it
NEGLIGIBLE = 1e-18
"""Largest mass to leave out at each end of the support: less than float64 rounding."""
POINTS = 64  # points that stand for a stretch of a support that is not listed


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
        log_density: Any = log_pmf or getattr(distribution, "logpdf", None)
        scored = callable(log_density) and callable(getattr(distribution, "rvs", None))
        # Only a distribution without its parameters can be called, to give them.
        if not scored or callable(distribution):
            raise InputError(
                f"from_scipy needs a frozen scipy distribution such as scipy.stats.poisson(10), "
                f"with its parameters, not {short_repr(distribution)}."
            )
        _check_parameters(distribution)
        self.density = log_pmf is None
        self.distribution = distribution
        self._log_density = log_density
        self._first: int | None = None
        self.support: Items = None
        ends = distribution.support() if hasattr(distribution, "ppf") else ()
        self.ends: tuple[float, ...] = tuple(map(float, ends))
        if self.ends and not self.density:
            self._tabulate()
        self.prefix_stable = self._first is not None

    def _tabulate(self) -> None:
        # scipy's rv_discrete may have values that are not integers; scipy draws and scores those.
        listed = getattr(self.distribution.dist, "xk", None)
        if listed is not None:
            self.support = np.asarray(listed) + (self.ends[0] - np.min(listed))
            return
        if any(math.isfinite(end) and end != round(end) for end in self.ends):
            return  # moved by a fraction, it is not over integers
        bounds = self._bounds()
        if bounds is None:
            return
        self._first = bounds[0]
        self.support = np.arange(bounds[0], bounds[1] + 1)
        self._log_pmf = np.asarray(self._log_density(self.support), dtype=np.float64)
        self._invert = InverseCdf(self.distribution.cdf(self.support))

    def _bounds(self) -> tuple[int, int] | None:
        """Return the ends of all but a negligible mass, or None if they are too far apart."""
        # They move away from the median; scipy's own quantiles fail for so small a mass.
        lowest, highest = self.ends
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

    def strata(self, cuts: Sequence[float]) -> tuple[Items, Array]:
        """Return points that stand for all of it, and the log of the mass that each stands for."""
        # No stretch between two points crosses a cut, and those of negligible mass are left out.
        if not self.ends:
            return np.zeros(0), np.zeros(0)
        frozen, inside = self.distribution, sorted({x for x in cuts if math.isfinite(x)})
        if not self.density:  # a cut at k splits below k and above k
            inside = sorted({y for x in inside for y in (math.ceil(x) - 1, math.floor(x))})
        at = np.array([-np.inf, *inside, np.inf])
        points, masses = [], []
        with np.errstate(all="ignore"):
            below, above = np.asarray(frozen.cdf(at)), np.asarray(frozen.sf(at))
            for i in range(len(at) - 1):
                # The difference of the smaller numbers has the more digits.
                left = below[i + 1] <= above[i]
                mass = below[i + 1] - below[i] if left else above[i] - above[i + 1]
                if not mass > NEGLIGIBLE:
                    continue
                steps = mass * (np.arange(POINTS) + 0.5) / POINTS
                x = frozen.ppf(below[i] + steps) if left else frozen.isf(above[i + 1] + steps)
                # scipy's quantiles may miss the stretch, or stop at its end.
                first, last = max(at[i], self.ends[0]), min(at[i + 1], self.ends[1])
                x = x[(x > first) & (x < last)] if self.density else x[(x > at[i]) & (x <= last)]
                x = x[np.abs(x) < FAR]
                if not len(x):
                    x = np.array([np.nextafter(first, np.inf), np.nextafter(last, -np.inf)])
                    x = x[np.abs(x) < FAR]
                points.append(x)
                masses.append(np.full(len(x), np.log(mass / max(len(x), 1))))
        x = np.concatenate(points)
        whole = not self.density and bool((np.abs(x) < 2**53).all() and (x == np.rint(x)).all())
        return (x.astype(np.int64) if whole else x), np.concatenate(masses)

    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """Draw n items."""
        n = check_request(n, rng)
        if self._first is None:
            try:
                items = np.asarray(self.distribution.rvs(size=n, random_state=rng))
            except (ValueError, TypeError, ArithmeticError) as error:
                raise InputError(f"scipy cannot draw from {self!r}: {error}.") from error
            return Batch(items, self.log_prob(items))
        index = self._invert(rng.random(n))
        return Batch(index + self._first, self._log_pmf[index])

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
        index = values - self._first
        outside = (index < 0) | (index >= len(self._log_pmf))
        some_outside = bool(outside.any())
        log_prob: Array = self._log_pmf[np.where(outside, 0, index) if some_outside else index]
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
        given = [short_repr(x, 20) for x in getattr(self.distribution, "args", ())]
        named = getattr(self.distribution, "kwds", {}).items()
        given += [f"{key}={short_repr(x, 20)}" for key, x in named]
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
            f"the parameters of {getattr(distribution.dist, 'name', 'it')} are not single numbers "
            f"that it allows: {short_repr(distribution.args)} {short_repr(distribution.kwds)}."
        )
