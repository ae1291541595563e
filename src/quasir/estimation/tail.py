"""The tail of the ratios: how heavy it is, and what may lie beyond the largest ratio seen.

A generalised Pareto distribution is fitted to the largest ratios, by the method of Zhang and
Stephens (2009) with the weak prior of Vehtari et al. (2024, "Pareto smoothed importance
sampling"). Its shape k shows which moments of the ratio exist: E[w^r] is finite for r < 1/k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from quasir.core.types import Array
from quasir.draws.ceiling import ROUNDING
from quasir.estimation.binned_ratios import Ratios

MIN_TAIL = 5  # with fewer exceedances than this, no shape is estimated
OFTEN = 5  # if the largest ratio was drawn this often, it is taken to be the largest that exists

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


class Beyond(NamedTuple):
    """Expectations under q over {w > beta}; all but `share` are infinite for k >= 1.

    They are q(w > beta), E[w], E[w - beta] and E[w log(w/beta)].
    """

    share: float
    mass: float
    excess: float
    log_excess: float


@dataclass(frozen=True, kw_only=True)
class Tail:
    """A generalised Pareto tail of the ratios, in units of the largest ratio seen."""

    k: float  # shape: -inf where the largest ratios are all equal; NaN where too few were seen
    scale: float
    threshold: float  # the ratio at which the tail begins
    count: int  # draws in the tail
    n: int  # all draws
    log_max: float  # log of the largest ratio, the unit
    at_max: int  # draws with that ratio
    log_ceiling: float = math.inf  # a proved upper bound; infinite where none is known

    def exceeds_all(self, log_beta: Array | float) -> Any:
        """Return True where beta is at or above the ceiling, so that no item's ratio exceeds it."""
        return log_beta >= self.log_ceiling - ROUNDING

    @property
    def fitted(self) -> bool:
        """Whether k is finite, so that the fit can be extrapolated."""
        return math.isfinite(self.k)

    @cached_property
    def heavier(self) -> Tail:
        """The tail with k at the upper end of its 95 % interval, but below 1 if k is below 1.

        The standard error of k is asymptotically (1 + k)/sqrt(count), for k > -1/2.
        """
        rise = 1.96 * max(1 + self.k, 0.5) / math.sqrt(self.count)
        cap = (1 + self.k) / 2 if self.k < 1 else math.inf
        return replace(self, k=min(self.k + rise, cap))

    def log_ratio_at(self, mass: float) -> float:
        """Return the log ratio above which q has this mass, but at least the largest one seen.

        On a discrete space the largest ratio may be drawn many times; then it is returned.
        """
        if not self.fitted or self.at_max >= OFTEN:
            return self.log_max
        log_excess = math.log(self.count / self.n / mass)
        grown = (
            log_excess
            if abs(self.k) < 1e-9
            else math.expm1(min(self.k * log_excess, 700.0)) / self.k
        )
        beyond = max(0.0, math.log(max(self.threshold + self.scale * grown, 1.0)))
        return min(self.log_max + beyond, self.log_ceiling)

    def above(self, log_beta: float) -> Beyond:
        """Return the fit's expectations above beta, in units of the largest ratio; see `Beyond`."""
        beta = math.exp(min(log_beta - self.log_max, 600.0))
        excess = (beta - self.threshold) / self.scale
        stretch = 1 + self.k * excess
        if stretch <= 0:
            return Beyond(0.0, 0.0, 0.0, 0.0)
        log_mass = -excess if abs(self.k) < 1e-9 else -math.log(stretch) / self.k
        mass = self.count / self.n * math.exp(log_mass)
        if self.k >= 1:
            return Beyond(mass, math.inf, math.inf, math.inf)
        scale = self.scale * stretch
        mean_excess = scale / (1 - self.k)
        # The mean over v in (0, 1) of (beta + y) log(1 + y/beta) at y(v) = scale (v^-k - 1)/k;
        # v = s^r with r = 2/(1 - k) removes the singularity at v -> 0.
        r = 2 / (1 - self.k)
        s = (_NODES + 1) / 2
        log_v = r * np.log(s)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            y = -log_v if abs(self.k) < 1e-9 else np.expm1(-self.k * log_v) / self.k
            y = y * (scale / beta)  # in units of beta
            values = beta * (1 + y) * np.log1p(y) * r * s ** (r - 1)
            kl = mass * float((_WEIGHTS / 2 * values).sum())
        # For k close to 1 the integral exceeds the range of a float.
        kl = kl if math.isfinite(kl) else math.inf
        return Beyond(mass, mass * (beta + mean_excess), mass * mean_excess, kl)


def tail_size(n: int) -> int:
    """Return how many of n ratios form the tail, as in PSIS: min(n/5, 3 sqrt(n))."""
    return math.floor(min(0.2 * n, 3 * math.sqrt(n)))


def fit_tail(ratios: Ratios, log_ceiling: float = math.inf) -> Tail:
    """Fit the tail to the largest `tail_size` ratios.

    The ceiling is discarded if a ratio exceeds it, as scores that vary from call to call may do.
    """
    log_ceiling = math.inf if ratios.log_max > log_ceiling + ROUNDING else log_ceiling
    n, log_max, count = ratios.n, ratios.log_max, tail_size(ratios.n)
    log_w = ratios.largest(count + 1)
    largest = np.exp(log_w[max(len(log_w) - count, 0) :] - log_max)
    at_max = ratios.at_max()
    threshold = math.exp(log_w[0] - log_max) if len(log_w) > count else 0.0
    excess = largest[largest > threshold] - threshold

    def tail(k: float, scale: float = math.nan) -> Tail:
        return Tail(
            k=k,
            scale=scale,
            threshold=threshold,
            count=len(excess),
            n=n,
            log_max=log_max,
            at_max=at_max,
            log_ceiling=log_ceiling,
        )

    if len(log_w) < MIN_TAIL or count < MIN_TAIL:
        return tail(math.nan)
    # All equal up to rounding: by these draws the ratio is bounded.
    if len(excess) == 0 or excess[-1] - excess[0] <= 1e-9:
        return tail(-math.inf)
    if len(excess) < MIN_TAIL:
        return tail(math.nan)
    k, scale = _fit_generalised_pareto(excess)
    return tail(k, scale) if math.isfinite(k) and scale > 0 else tail(math.inf)


def _fit_generalised_pareto(x: Array) -> tuple[float, float]:
    """Return (k, scale) for sorted excesses x > 0.

    With theta = -k/scale the likelihood has one parameter, since k = mean log(1 - theta x);
    the estimate is the posterior mean of theta over a grid of its prior's quantiles.
    """
    n = len(x)
    m = 30 + int(math.sqrt(n))
    quartile = x[int(n / 4 + 0.5) - 1]
    with np.errstate(all="ignore"):
        theta = 1 / x[-1] + (1 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))) / (3 * quartile)
        k = np.array([np.log1p(-t * x).mean() for t in theta])
        log_likelihood = n * (np.log(-theta / k) - k - 1)
        good = np.isfinite(log_likelihood)
        if not good.any():
            return math.inf, math.nan
        weight = np.exp(log_likelihood[good] - log_likelihood[good].max())
        best = float((theta[good] * weight).sum() / weight.sum())
        shape = float(np.log1p(-best * x).mean())
    scale = -shape / best if best != 0 else float(x.mean())
    # The prior has the weight of ten excesses of shape 1/2.
    return (n * shape + 10 * 0.5) / (n + 10), scale
