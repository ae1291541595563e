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
from quasir.estimation.formulas import Raw
from quasir.estimation.tail import Tail

__all__ = ["PSEUDO_DRAW_MASS", "with_intervals"]

PSEUDO_DRAW_MASS = 0.1
"""N times the q-mass above the added draw's ratio.

N draws miss so rare a ratio nine times in ten; `docs/intervals.md` has the coverage measured
with it.
"""

_NO_HITS = -math.log(0.025)
"""N draws without a hit allow a mass of this over N (97.5 %)."""


def with_intervals(
    raw: Raw, plus: Raw, tail: Tail, names: tuple[str, ...], boolean: tuple[bool, ...]
) -> dict[str, Estimate]:
    """Return every estimate with its interval, by name.

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
    unseen = (raw.n_above == 0) | (raw.tvd[0] <= 1e-12)
    bound = _positive(raw.tvd_bound, plus.tvd_bound, 1.0)
    tvd = _slackened(_positive(raw.tvd, plus.tvd, 1.0), raw.tvd_slack)
    kl = _positive(raw.kl, plus.kl, math.inf)
    if unseen.any():
        bound_high, kl_high = _unseen_tail(raw, tail, raw.log_beta[unseen])
        above = raw.n_above[unseen] > 0
        bound = _extend(bound, unseen, np.where(above, 0.0, np.minimum(bound_high, 1.0)), above)
        # TVD is at most the bound (Eq. 3), so the bound's upper end serves for it too.
        tvd = _extend(tvd, unseen, np.minimum(bound_high, 1.0))
        kl = _extend(kl, unseen, kl_high)
    certain = tail.exceeds_all(raw.log_beta)
    tvd, bound, kl = (_none(estimate, certain) for estimate in (tvd, bound, kl))
    rate, rate_se = raw.acceptance_rate
    rate_low, rate_high = log_interval(rate, rate_se)
    # Every draw accepted: how far from 1 the rate may be is that of a proportion.
    sure = rate_se == 0
    rate_low = np.where(sure, wilson_interval(rate, np.full_like(rate, tail.n))[0], rate_low)
    log_z, log_z_se = raw.log_z
    more_z, more_z_se = plus.log_z
    like = np.ones_like(rate)
    estimates = {
        "acceptance_rate": Estimate(rate, rate_se, rate_low, np.minimum(rate_high, 1.0)),
        "tvd": tvd,
        "tvd_bound": bound,
        "kl": kl,
        "log_z": Estimate(
            like * log_z,
            like * log_z_se,
            like * (log_z - Z95 * log_z_se),
            like * (max(log_z + Z95 * log_z_se, more_z + Z95 * more_z_se)),
        ),
        "log_z_beta": _symmetric(raw.log_z_beta),
    }
    if raw.kl_base is not None:
        estimates["kl_base"] = _symmetric(raw.kl_base, low=0.0)
    for name, is_boolean, column in zip(names, boolean, raw.columns, strict=True):
        estimates[f"moment:{name}"] = (
            _proportion(column, raw.kish, tail.n) if is_boolean else _symmetric(column)
        )
    return estimates


def _positive(raw: tuple[Array, Array], plus: tuple[Array, Array], largest: float) -> Estimate:
    low, high = log_interval(*raw)
    _, higher = log_interval(*plus)
    return Estimate(*raw, low, np.minimum(np.maximum(high, higher), largest))


def _slackened(tvd: Estimate, slack: Array) -> Estimate:
    """Allow, besides chance, for what bins leave open."""
    low, high = np.maximum(tvd.low - slack, 0.0), np.minimum(tvd.high + slack, 1.0)
    return Estimate(tvd.value, tvd.se, low, high)


def _symmetric(raw: tuple[Array, Array], low: float = -math.inf) -> Estimate:
    value, se = raw
    return Estimate(value, se, np.maximum(value - Z95 * se, low), value + Z95 * se)


def _proportion(raw: tuple[Array, Array], kish: Array, n: int) -> Estimate:
    """Wilson's interval at the effective number of draws that the standard error implies."""
    value, se = np.clip(raw[0], 0.0, 1.0), raw[1]
    # Always, or never, but for rounding.
    value = np.where((se == 0) & (np.abs(value - np.rint(value)) < 1e-12), np.rint(value), value)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        effective = np.where(se > 0, value * (1 - value) / se**2, kish)
    effective = np.minimum(np.where(effective > 0, effective, kish), n)
    return Estimate(value, se, *wilson_interval(value, effective))


def _extend(estimate: Estimate, where: Array, high: Array, known: Array | bool = False) -> Estimate:
    """Raise the upper end, and say that the standard error is not known, but where it is."""
    se, top = estimate.se.copy(), estimate.high.copy()
    se[where] = np.where(known, se[where], math.nan)
    top[where] = np.maximum(top[where], high)
    return Estimate(estimate.value, se, estimate.low, top)


def _none(estimate: Estimate, where: Any) -> Estimate:
    """Put 0, without any uncertainty, where that is known."""
    ends = (estimate.value, estimate.se, estimate.low, estimate.high)
    return Estimate(*(np.where(where, 0.0, end) for end in ends))


def _unseen_tail(raw: Raw, tail: Tail, log_beta: Array) -> tuple[Array, Array]:
    """Return upper ends for the bound and KL at betas above every ratio seen."""
    per_z = math.exp(tail.log_max - raw.log_z[0])  # the largest ratio in units of Z
    floor = _NO_HITS / tail.n * per_z
    if tail.k == -math.inf:
        return np.full_like(log_beta, floor), np.full_like(log_beta, floor)
    # No more than N draws without a hit allow at the ceiling; KL is at most p(w > beta) log M/beta.
    most = floor * math.exp(min(tail.log_ceiling - tail.log_max, 700.0))
    most_kl = most * np.maximum(tail.log_ceiling - log_beta, 0.0)
    if not tail.k < 1:
        return np.full_like(log_beta, min(most, 1.0)), most_kl
    beyond = np.array([tail.heavier.above(max(b, tail.log_max)) for b in log_beta]) * per_z
    high, kl_high = np.maximum(beyond[:, 1], floor), np.maximum(beyond[:, 3], floor)
    return np.minimum(high, most), np.minimum(kl_high, most_kl)
