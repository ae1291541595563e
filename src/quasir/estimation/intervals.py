"""95 % intervals for the estimates, wide enough for a skewed tail.

TVD, KL and the bound live on the largest ratios, of which few are seen, and the largest of all
perhaps never. A plain ``value +- 1.96 se`` then covers too little (`docs/intervals.md` has how
little). Three things mend it:

- the interval is made on the log scale, as skewed as a Poisson count's;
- the upper end is also computed with one draw more, at the ratio that q exceeds with
  probability 0.1/N by the fitted Pareto tail: a ratio so rare that N draws miss it nine times
  in ten. This is Agresti and Coull's idea of added successes, put where it matters. Where
  the tail is well seen, one draw in N changes nothing;
- where no draw lies above beta, the upper end is what the tail's fit has above it, and no less
  than N draws without a hit allow at the largest ratio seen.

Where a ceiling of the ratios is known (`quasir.draws.ceiling`), the added draw is not above it,
no tail can be heavier than one at the ceiling that N draws have missed, and at betas from the
ceiling on TVD, KL and the bound are 0 for certain.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quasir.core.types import Array
from quasir.estimation.estimate import Z95, Estimate, log_interval, wilson_interval
from quasir.estimation.formulas import Pair, Raw
from quasir.estimation.no_hits import no_hits
from quasir.estimation.quantities import QUANTITIES, Interval, Key, Moment, Quantity
from quasir.estimation.tail import Tail

__all__ = ["PSEUDO_DRAW_MASS", "with_intervals"]

PSEUDO_DRAW_MASS = 0.1
"""N times the q-mass above the added draw's ratio.

N draws miss so rare a ratio nine times in ten; `docs/intervals.md` has the coverage measured
with it.
"""


def with_intervals(
    raw: Raw, plus: Raw, tail: Tail, names: tuple[str, ...], boolean: tuple[bool, ...]
) -> dict[Key, Estimate]:
    """Return every estimate with its interval.

    Parameters
    ----------
    raw, plus : Raw
        The estimates on the draws, and with the one draw more.
    tail : Tail
        The fitted tail.
    names, boolean : tuples
        The features' names, and which of them are boolean.
    """
    # No draw above beta, or no two ratios that differ: 0 is all that the draws can say.
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
            estimates[name] = _none(part, tail.exceeds_all(raw.log_beta))
        elif quantity.interval is Interval.LOG_Z:
            plain, more = _symmetric(pair), _symmetric(plus.pairs[name])
            high = np.maximum(plain.high, more.high)
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
    # Every draw accepted: how far from 1 the rate may be is that of a proportion.
    low = np.where(se == 0, wilson_interval(rate, np.full_like(rate, n))[0], low)
    return Estimate(rate, se, low, np.minimum(high, 1.0))


def _positive(raw: Pair, plus: Pair, largest: float, slack: Array | None) -> Estimate:
    """Return an interval on the log scale, which allows for what bins leave open (`slack`)."""
    low, high = log_interval(*raw)
    _, higher = log_interval(*plus)
    high = np.minimum(np.maximum(high, higher), largest)
    if slack is not None:
        low, high = np.maximum(low - slack, 0.0), np.minimum(high + slack, largest)
    return Estimate(*raw, low, high)


def _unseen(
    quantity: Quantity, part: Estimate, where: Array, n_above: Array, upper: dict[str, Array]
) -> Estimate:
    """Raise the upper end where the draws show no tail; its standard error is not known there.

    Where draws lie above beta, but all have the same ratio, the bound is seen all the same.
    """
    assert quantity.upper is not None
    high = np.minimum(upper[quantity.upper], quantity.high)
    seen = (n_above[where] > 0) & (quantity.name == "tvd_bound")
    se, top = part.se.copy(), part.high.copy()
    se[where] = np.where(seen, se[where], math.nan)
    top[where] = np.maximum(top[where], np.where(seen, 0.0, high))
    return Estimate(part.value, se, part.low, top)


def _symmetric(raw: Pair, low: float = -math.inf) -> Estimate:
    value, se = raw
    return Estimate(value, se, np.maximum(value - Z95 * se, low), value + Z95 * se)


def _proportion(raw: Pair, kish: Array, n: int) -> Estimate:
    """Wilson's interval at the effective number of draws that the standard error implies."""
    value, se = np.clip(raw[0], 0.0, 1.0), raw[1]
    # Always, or never, but for rounding.
    value = np.where((se == 0) & (np.abs(value - np.rint(value)) < 1e-12), np.rint(value), value)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        effective = np.where(se > 0, value * (1 - value) / se**2, kish)
    effective = np.minimum(np.where(effective > 0, effective, kish), n)
    return Estimate(value, se, *wilson_interval(value, effective))


def _none(estimate: Estimate, where: Any) -> Estimate:
    """Put 0, without any uncertainty, where that is known."""
    ends = (estimate.value, estimate.se, estimate.low, estimate.high)
    return Estimate(*(np.where(where, 0.0, end) for end in ends))


def _unseen_tail(raw: Raw, tail: Tail, log_beta: Array) -> dict[str, Array]:
    """Return upper ends at betas above every ratio seen: of the mass, and of KL, above beta."""
    log_z = float(raw.pairs["log_z"][0][0])
    per_z = math.exp(tail.log_max - log_z)  # the largest ratio in units of Z
    floor = np.full_like(log_beta, no_hits(tail.n) * per_z)
    if tail.k == -math.inf:
        return {"mass": floor, "log_excess": floor}
    # No more than N draws without a hit allow at the ceiling; KL is at most p(w > beta) log M/beta.
    most = floor * math.exp(min(tail.log_ceiling - tail.log_max, 700.0))
    most_kl = most * np.maximum(tail.log_ceiling - log_beta, 0.0)
    if not tail.k < 1:
        return {"mass": np.minimum(most, 1.0), "log_excess": most_kl}
    beyond = [tail.heavier.above(max(b, tail.log_max)) for b in log_beta.tolist()]
    mass = np.array([part.mass for part in beyond]) * per_z
    log_excess = np.array([part.log_excess for part in beyond]) * per_z
    return {
        "mass": np.minimum(np.maximum(mass, floor), most),
        "log_excess": np.minimum(np.maximum(log_excess, floor), most_kl),
    }
