"""95 % intervals for the estimates, wide enough for a skewed tail (docs/records/intervals.md).

They are on the log scale; an upper end is also computed with one more draw, at a ratio that q
seldom exceeds by the fitted tail, and where no draw lies above beta it is the tail's mass there.
The tail is a generalised Pareto distribution fitted to the largest ratios (Zhang and Stephens 2009;
Vehtari et al. 2024). Its shape k shows which moments exist: E[w^r] is finite for r < 1/k.
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
from quasir.estimation.estimate import Z95, Estimate, Key, Moment
from quasir.estimation.formulas import Pair, Raw, ceiling_bound
from quasir.estimation.quantities import GUARANTEED, QUANTITIES, Interval, Quantity

MIN_TAIL = 5  # with fewer exceedances than this, no shape is estimated
OFTEN = 5  # if the largest ratio was drawn this often, it is taken to be the largest that exists
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
PSEUDO_DRAW_MASS = 0.1
"""N times the q-mass above the added draw's ratio: N draws miss it nine times in ten."""


def with_intervals(
    raw: Raw, plus: Raw, tail: Tail, names: tuple[str, ...], boolean: tuple[bool, ...]
) -> dict[Key, Estimate]:
    """Return every estimate with its interval."""
    # Where no draw lies above beta, or all ratios are equal, the draws give 0 for TVD.
    unseen = (raw.n_above == 0) | (raw.pairs["tvd"][0] <= 1e-12)
    upper = _unseen_tail(raw, tail, raw.log_beta[unseen]) if unseen.any() else {}
    estimates: dict[Key, Estimate] = {}
    for name, pair in raw.pairs.items():
        quantity = QUANTITIES[name]
        if quantity.interval is Interval.RATE:
            estimates[name] = _rate(pair, tail.n)
        elif quantity.interval is Interval.TAIL:
            slack = raw.tvd_slack if name == "tvd" else 0.0
            part = _positive(pair, plus.pairs[name], quantity.high, slack)
            if unseen.any():
                part = _unseen(quantity, part, unseen, raw.n_above, upper)
            if name in GUARANTEED:
                most = np.maximum(ceiling_bound(name, tail.log_ceiling - raw.log_beta), part.value)
                part = Estimate(part.value, part.se, part.low, np.minimum(part.high, most))
            estimates[name] = _certain_zero(part, tail.exceeds_all(raw.log_beta))
        elif quantity.interval is Interval.LOG_Z:
            plain, more = _symmetric(pair), _symmetric(plus.pairs[name])
            high = np.maximum(plain.high, more.high)
            if tail.k == -math.inf and tail.log_ceiling < math.inf:
                # The ratios seen are equal, and larger ones are possible: up to the ceiling.
                high = np.maximum(
                    high,
                    np.logaddexp(plain.value, math.log(zero_hit_bound(tail.n)) + tail.log_ceiling),
                )
            estimates[name] = Estimate(plain.value, plain.se, plain.low, high)
        else:
            estimates[name] = _symmetric(pair, quantity.low)
    for feature, is_boolean, column in zip(names, boolean, raw.columns, strict=True):
        estimates[Moment(feature)] = (
            _proportion(column, raw.kish, tail.n) if is_boolean else _symmetric(column)
        )
    return estimates


def _rate(pair: Pair, n: int) -> Estimate:
    rate, se = pair
    low, high = log_interval(rate, se)
    # Where every draw was accepted, the lower end is that of a proportion.
    low = np.where(se == 0, wilson_interval(rate, np.full_like(rate, n))[0], low)
    return Estimate(rate, se, low, np.minimum(high, 1.0))


def _positive(raw: Pair, plus: Pair, largest: float, slack: Array | float) -> Estimate:
    """Return an interval on the log scale, widened by the `slack` of binned ratios."""
    low, high = log_interval(*raw)
    _, higher = log_interval(*plus)
    high = np.minimum(np.maximum(high, higher), largest)
    low, high = np.maximum(low - slack, 0.0), np.minimum(high + slack, largest)
    return Estimate(*raw, low, high)


def _unseen(
    quantity: Quantity, part: Estimate, where: Array, n_above: Array, upper: dict[str, Array]
) -> Estimate:
    """Raise `high` where the draws show no tail, and set `se` to NaN there."""
    assert quantity.upper is not None
    high = np.minimum(upper[quantity.upper], quantity.high)
    # Draws above beta show the bound even if all have one ratio.
    seen = (n_above[where] > 0) & (not quantity.zero_if_flat)
    se, top = part.se.copy(), part.high.copy()
    se[where] = np.where(seen, se[where], math.nan)
    top[where] = np.maximum(top[where], np.where(seen, 0.0, high))
    return Estimate(part.value, se, part.low, top)


def _symmetric(raw: Pair, low: float = -math.inf) -> Estimate:
    value, se = raw
    return Estimate(value, se, np.maximum(value - Z95 * se, low), value + Z95 * se)


def _proportion(raw: Pair, kish: Array, n: int) -> Estimate:
    """Return Wilson's interval at the effective number of draws that the standard error implies."""
    value, se = np.clip(raw[0], 0.0, 1.0), raw[1]
    # A feature that is always or never true has the mean 1 or 0, up to rounding.
    value = np.where((se == 0) & (np.abs(value - np.rint(value)) < 1e-12), np.rint(value), value)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        effective = np.where(se > 0, value * (1 - value) / se**2, kish)
    effective = np.minimum(np.where(effective > 0, effective, kish), n)
    return Estimate(value, se, *wilson_interval(value, effective))


def _certain_zero(estimate: Estimate, where: Any) -> Estimate:
    """Set the estimate and its interval to exactly 0 at the given places."""
    e = estimate
    value, se, low, high = (np.where(where, 0.0, end) for end in (e.value, e.se, e.low, e.high))
    return Estimate(value, se, low, high, where)


def _unseen_tail(raw: Raw, tail: Tail, log_beta: Array) -> dict[str, Array]:
    """Return upper ends at betas above every ratio seen: for p's mass above beta, and for KL."""
    log_z = float(raw.pairs["log_z"][0][0])
    per_z = math.exp(tail.log_max - log_z)  # the largest ratio in units of Z
    floor = np.full_like(log_beta, zero_hit_bound(tail.n) * per_z)
    if tail.k == -math.inf and tail.log_ceiling == math.inf:
        return {"mass": floor, "log_excess": floor}
    # The mass that N draws without a hit allow at the ceiling M; KL <= p(w > beta) log M/beta.
    most = floor * math.exp(min(tail.log_ceiling - tail.log_max, 700.0))
    with np.errstate(over="ignore"):
        most_kl = most * np.maximum(tail.log_ceiling - log_beta, 0.0)
    if tail.k == -math.inf or not tail.k < 1:
        return {"mass": np.minimum(most, 1.0), "log_excess": most_kl}
    beyond = [tail.heavier.above(max(b, tail.log_max)) for b in log_beta.tolist()]
    mass = np.array([part.mass for part in beyond]) * per_z
    log_excess = np.array([part.log_excess for part in beyond]) * per_z
    return {
        "mass": np.minimum(np.maximum(mass, floor), most),
        "log_excess": np.minimum(np.maximum(log_excess, floor), most_kl),
    }


def zero_hit_bound(n: int) -> float:
    """Return the upper bound (97.5 %) on the probability of an event that n draws never met."""
    # The upper end of Clopper and Pearson's 95 % interval at 0 hits, about 3.69/n.
    return -math.expm1(math.log(0.025) / n)


def log_interval(value: Array, se: Array) -> tuple[Array, Array]:
    """Return value * exp(-+ 1.96 se/value), skewed like the interval of a Poisson count."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        factor = np.exp(Z95 * np.where(value > 0, se / value, 0.0))
        return value / factor, value * factor


def wilson_interval(value: Array, n: Array) -> tuple[Array, Array]:
    """Return Wilson's score interval for a proportion of n draws (n need not be an integer)."""
    middle = (value + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    half = Z95 / (1 + Z95**2 / n) * np.sqrt(value * (1 - value) / n + Z95**2 / (4 * n**2))
    return np.clip(middle - half, 0.0, value), np.clip(middle + half, value, 1.0)


class Beyond(NamedTuple):
    """Expectations under q over {w > beta}; all but `share` are infinite for k >= 1."""

    share: float  # q(w > beta)
    mass: float  # E[w]
    excess: float  # E[w - beta]
    log_excess: float  # E[w log(w/beta)]


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
        """The tail with k at the upper end of its 95 % interval, but below 1 if k is below 1."""
        # The standard error of k is asymptotically (1 + k)/sqrt(count), for k > -1/2.
        rise = 1.96 * max(1 + self.k, 0.5) / math.sqrt(self.count)
        cap = (1 + self.k) / 2 if self.k < 1 else math.inf
        return replace(self, k=min(self.k + rise, cap))

    def log_ratio_at(self, mass: float) -> float:
        """Return the log ratio above which q has this mass, but at least the largest one seen."""
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
    """Fit the tail to the largest `tail_size` ratios; a ceiling that one exceeds is discarded."""
    log_ceiling = math.inf if ratios.log_max > log_ceiling + ROUNDING else log_ceiling
    n, log_max, count = ratios.n, ratios.log_max, tail_size(ratios.n)
    log_w = ratios.largest(count + 1)
    largest = np.exp(log_w[max(len(log_w) - count, 0) :] - log_max)
    threshold = math.exp(log_w[0] - log_max) if len(log_w) > count else 0.0
    excess = largest[largest > threshold] - threshold

    tail = Tail(
        k=math.nan,
        scale=math.nan,
        threshold=threshold,
        count=len(excess),
        n=n,
        log_max=log_max,
        at_max=ratios.at_max(),
        log_ceiling=log_ceiling,
    )
    if len(log_w) < MIN_TAIL or count < MIN_TAIL:
        return tail
    # All equal up to rounding: by these draws the ratio is bounded.
    if len(excess) == 0 or excess[-1] - excess[0] <= 1e-9:
        return replace(tail, k=-math.inf)
    if len(excess) < MIN_TAIL:
        return tail
    k, scale = _fit_generalised_pareto(excess)
    good = math.isfinite(k) and scale > 0
    return replace(tail, k=k, scale=scale) if good else replace(tail, k=math.inf)


def _fit_generalised_pareto(x: Array) -> tuple[float, float]:
    """Return (k, scale) for sorted excesses x > 0."""
    # With theta = -k/scale the likelihood has one parameter, since k = mean log(1 - theta x); the
    # estimate is the posterior mean of theta over a grid of its prior's quantiles.
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
