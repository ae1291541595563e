"""95 % intervals for the estimates, wide enough for a skewed tail.

TVD, KL and the bound depend on the largest ratios. Few of these are drawn, and the largest of all
perhaps never. A plain ``value +- 1.96 se`` then covers too little (`docs/intervals.md` has the
measurements). Three changes correct this:

- the interval is computed on the log scale, so that it is skewed like that of a Poisson count;
- the upper end is also computed with one more draw. Its ratio is the one that q exceeds with
  probability 0.1/N by the fitted Pareto tail: so rare that N draws miss it nine times in ten.
  This is Agresti and Coull's idea of added successes, applied to the tail. Where many draws lie
  in the tail, one more changes nothing;
- where no draw lies above beta, the upper end is the fitted tail's mass above beta, and at least
  the mass that N draws without a hit allow at the largest ratio seen.

Where a ceiling of the ratios is known (`quasir.draws.ceiling`), the added draw is at most the
ceiling, the upper end is at most the mass that N draws without a hit allow at the ceiling, and TVD,
KL and the bound are exactly 0 at every beta from the ceiling on. Below it, no upper end of TVD,
truncated mass and KL is above what the ceiling alone makes certain (`ceiling_bound`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quasir.core.types import Array
from quasir.estimation.estimate import Z95, Estimate
from quasir.estimation.formulas import Pair, Raw, ceiling_bound
from quasir.estimation.quantities import GUARANTEED, QUANTITIES, Interval, Key, Moment, Quantity
from quasir.estimation.ratios import SortedRatios
from quasir.estimation.tail import OFTEN, Tail, fit_tail

PSEUDO_DRAW_MASS = 0.1
"""N times the q-mass above the added draw's ratio.

N draws miss such a ratio nine times in ten; `docs/intervals.md` has the measured coverage.
"""
SURE = 3.0  # standard errors by which a shape must exceed 0, to be taken as positive


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
            slack = raw.tvd_slack if name == "tvd" else None
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


def _positive(raw: Pair, plus: Pair, largest: float, slack: Array | None) -> Estimate:
    """Return an interval on the log scale, widened by the `slack` of binned ratios."""
    low, high = log_interval(*raw)
    _, higher = log_interval(*plus)
    high = np.minimum(np.maximum(high, higher), largest)
    if slack is not None:
        low, high = np.maximum(low - slack, 0.0), np.minimum(high + slack, largest)
    return Estimate(*raw, low, high)


def _unseen(
    quantity: Quantity, part: Estimate, where: Array, n_above: Array, upper: dict[str, Array]
) -> Estimate:
    """Raise `high` where the draws show no tail, and set `se` to NaN there.

    The bound is left as it is where draws lie above beta: they show it even if all have one ratio.
    """
    assert quantity.upper is not None
    high = np.minimum(upper[quantity.upper], quantity.high)
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
    """Return the upper bound (97.5 %) on the probability of an event that n draws never met.

    It is the upper end of Clopper and Pearson's 95 % interval at 0 hits, about 3.69/n.
    """
    return -math.expm1(math.log(0.025) / n)


def log_interval(value: Array, se: Array) -> tuple[Array, Array]:
    """Return value * exp(-+ 1.96 se/value), the interval of a positive quantity.

    For few hits it is close to the exact interval of a Poisson count, which is equally skewed.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        factor = np.exp(Z95 * np.where(value > 0, se / value, 0.0))
        return value / factor, value * factor


def wilson_interval(value: Array, n: Array) -> tuple[Array, Array]:
    """Return Wilson's score interval for a proportion of n draws (n need not be an integer)."""
    middle = (value + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    half = Z95 / (1 + Z95**2 / n) * np.sqrt(value * (1 - value) / n + Z95**2 / (4 * n**2))
    return np.clip(middle - half, 0.0, value), np.clip(middle + half, value, 1.0)


def weighted_mean(
    values: Array, log_weight: Array, n: int, bounds: tuple[float, float] = (-math.inf, math.inf)
) -> Estimate:
    """Return the self-normalised mean of the possible draws, out of n, with its 95 % interval.

    Each end is also computed with one more draw, whose share in the error is the one that q exceeds
    with probability 0.1/n by the fitted tail (docs/intervals.md). Where that tail has no mean, or
    the log weights have a polynomial tail (E[w] is then infinite, however the weights seen look),
    the draws do not bound the mean on that side, and the end is the feature's own bound.
    """
    top = log_weight.max()
    log_share = log_weight - top - math.log(np.exp(log_weight - top).sum())
    weight = np.exp(log_share)
    mean = float(weight @ values)
    apart = values - mean
    se = math.sqrt(float((weight * apart) @ (weight * apart)))
    ends = []
    for sign in (-1, 1):
        on_side = sign * apart > 0
        with np.errstate(divide="ignore"):
            log_part = np.where(on_side, log_share + np.log(np.abs(apart)), -np.inf)
        reach = Z95 * se
        if on_side.any():
            more = _one_more(log_part, n)
            reach = max(reach, more + Z95 * math.hypot(se, more))
        if on_side[np.argsort(log_weight)[-OFTEN:]].any() and _polynomial_tail(log_weight, n):
            reach = math.inf
        ends.append(mean + sign * reach)
    low, high = bounds
    return Estimate(mean, se, max(ends[0], min(low, mean)), min(ends[1], max(high, mean)))


def _one_more(log_part: Array, n: int) -> float:
    """Return what one more draw may add; infinite where the fitted tail has no mean."""
    tail = fit_tail(_padded(log_part, n))
    return math.inf if tail.k >= 1 else math.exp(min(tail.log_ratio_at(PSEUDO_DRAW_MASS / n), 700))


def _polynomial_tail(log_weight: Array, n: int) -> bool:
    """Return whether the largest log weights fall off like a power: then E[w] is infinite."""
    with np.errstate(divide="ignore"):
        tail = fit_tail(_padded(np.log(log_weight - log_weight.min()), n))
    return tail.fitted and tail.k > SURE * (1 + tail.k) / math.sqrt(tail.count)


def _padded(logs: Array, n: int) -> SortedRatios:
    """Return them as ratios of n draws: those that are impossible have none."""
    return SortedRatios(np.concatenate([logs, np.full(n - len(logs), -np.inf)]))
