r"""Equations 2 and 5-10 and appendices C and D of the paper, with delta-method variances.

With w = P/q, w_b = min(w, beta), y = w/Z and v = w_b/Z_b, each estimate is a mean over the
draws or a smooth function of such means, so its variance is that of its influence function
over N. The influence functions, all of mean zero, are

====================  ==========================================================
Z_beta, relative      v - 1
Z, relative           y - 1
bound B               y (1_H - B),                     H = {w > beta}
TVD                   1_C (y - v) - p_C y + q_C v,     C = {y > v} = {w > beta Z/Z_beta}
KL                    v + y (g - 1 - k),               g = max(0, log w/beta), k = E[y g]
moment of f           v (f - mu)
KL(p_beta, a)         v (s - KL - log Z_beta - 1) + 1, s = log P_beta/a
====================  ==========================================================

where p_C = E[y 1_C] and q_C = E[v 1_C]. On L = {w <= beta} v is w/Z_beta, on H it is the
constant beta/Z_beta, so every second moment is made of the sums in `quasir.estimation.ratios`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from quasir.core.types import Array
from quasir.estimation.ratios import Sums

__all__ = ["Pair", "Raw", "estimate"]


Pair: TypeAlias = tuple[Array, Array]
"""A value and its standard error, at each beta."""


@dataclass(frozen=True, kw_only=True)
class Raw:
    """Values and standard errors at each beta, before any interval is put on them.

    Attributes
    ----------
    log_beta : array
    pairs : dict
        Name of a quantity -> value and standard error. Z and Z_beta are by their logarithms.
    columns : list of pairs
        The means of the features, in their order.
    n_above : array
        Draws above beta.
    kish : array
        Kish's effective number of draws from p_beta.
    tvd_slack : array
        How far TVD can be from its value on the draws: 0 unless the ratios are binned.
    """

    log_beta: Array
    pairs: dict[str, Pair]
    columns: list[Pair]
    n_above: Array
    kish: Array
    tvd_slack: Array


def estimate(
    sums_at: Callable[[Array], Sums],
    log_beta: Array,
    *,
    has_base: bool = False,
    everything: bool = False,
) -> Raw:
    """Estimate everything at every beta.

    Parameters
    ----------
    sums_at : callable
        Gives the `Sums` at an array of log cuts.
    log_beta : array
        Where to estimate.
    has_base : bool
        Whether the last pair of columns is log P/a - log M (over L) and log q/a (over H).
    everything : bool
        Count the draws with P(x) = 0 among H as well. At a beta below every ratio, p_beta
        is then q itself; without, it is q_proj of appendix D.

    Notes
    -----
    The differences in KL and TVD are taken between sums over H alone, where the two sides
    differ, so that neither loses its digits as beta grows and both go to 0.
    """
    s = sums_at(log_beta)
    n, n_high = s.n, np.full_like(s.n_high, s.n) if everything else s.n_high
    # From here on logs are relative to the largest ratio's, so that P's scale costs no digits.
    log_b, log_unit = log_beta - s.log_max, s.log_unit - s.log_max
    with np.errstate(divide="ignore"):
        log_z = float(np.log(s.total[0] / n))
        # Z_beta is within a factor N of beta, or of the largest ratio where H is empty.
        near = np.where(n_high > 0, log_b, log_unit)
        log_low, log_high = (log_unit - near) + np.log(s.low[:, 0]), np.log(n_high)
        gap = np.logaddexp(log_low, log_high) - np.log(n)
        # Sums over L come from below and those over H from above; where L is all there is,
        # rounding must not push Z_beta past Z.
        log_zb = near + gap if everything else np.minimum(near + gap, log_z)

    # Where L or H is empty, what would multiply its sums is 0, not something that overflows.
    unit = np.exp(np.where(s.low[:, 0] > 0, (log_unit - near) - gap, -np.inf))
    low_v, low_v2 = s.low[:, 0] * unit, s.low[:, 1] * unit**2
    v_high = np.exp(np.where(n_high > 0, -gap, -np.inf))
    r = np.exp(log_zb - log_z)  # on L, y = r v
    h1, h2, h1l, h2l, h2ll = _in_units_of_z(s.high, -log_z)
    _, total_y2, *_ = _in_units_of_z(s.total, -log_z)

    relative = _over_one((low_v2 + n_high * v_high**2) / n)
    rate = np.exp(gap + (near - log_b))
    bound = h1 / n
    bound_variance = (h2 * (low_v * r / n) ** 2 + low_v2 * r**2 * bound**2) / n

    k = (-log_b * h1 - h1l) / n  # on H, g = -log_b - l
    lost = (h1 - n_high * v_high * r) / n  # 1 - Z_beta/Z
    small = (lost < 0.5) & ~everything
    with np.errstate(invalid="ignore", divide="ignore"):
        kl = np.where(small, np.log1p(-lost), log_zb - log_z) + k
    on_low = np.where(small, lost + k * lost - k, 1 - (1 + k) * r)
    a = -log_b - 1 - k
    kl_variance = (
        low_v2 * on_low**2
        + n_high * v_high**2
        + 2 * v_high * (a * h1 - h1l)
        + (a**2 * h2 - 2 * a * h2l + h2ll)
    ) / n

    log_excess = log_beta + (log_z - log_zb)
    c = sums_at(log_excess if everything else np.maximum(log_excess, log_beta))
    c1, c2, *_ = _in_units_of_z(c.high, -log_z)
    c_n, slack = c.n_high, np.zeros_like(c1)
    if c.straddled is not None:
        b = c.straddled
        b1, b2 = b.sums[:, 0] * np.exp(-log_z), b.sums[:, 1] * np.exp(-2 * log_z)
        low, high = (np.exp(edge - s.log_max - log_z) for edge in (b.log_low, b.log_high))
        slack = _unknown_excess(b.count, b1, b2, v_high, low, high) / (2 * n)
        # The bin goes where most of it belongs, and half of what that may miss is added to TVD.
        mine = b1 > b.count * v_high
        c1, c2, c_n = (
            part + np.where(mine, of_bin, 0.0)
            for part, of_bin in ((c1, b1), (c2, b2), (c_n, b.count))
        )
    p_c, q_c = c1 / n, c_n * v_high / n
    up, down = 1 - p_c, v_high * (1 - q_c)
    tvd_variance = (
        (up**2 * c2 - 2 * up * down * c1 + down**2 * c_n)
        + p_c**2 * (h2 - c2)
        - 2 * p_c * q_c * v_high * (h1 - c1)
        + (q_c * v_high) ** 2 * (n_high - c_n)
        + low_v2 * (q_c - p_c * r) ** 2
    ) / n

    columns = [
        _moment(s.low_columns[:, i], s.high_columns[:, i], unit, v_high, n, low_v2, n_high)
        for i in range(s.low_columns.shape[1] - has_base)
    ]
    log_z_se = float(_se(_over_one(total_y2 / n), n))
    like = np.ones_like(rate)
    pairs = {
        "acceptance_rate": (np.minimum(rate, 1.0), rate * _se(relative, n)),
        "tvd": (np.clip(p_c - q_c + slack, 0.0, 1.0), _se(tvd_variance, n)),
        "tvd_bound": (np.clip(bound, 0.0, 1.0), _se(bound_variance, n)),
        "kl": (np.maximum(kl, 0.0), _se(kl_variance, n)),
        "log_z": (like * (log_z + s.log_max), like * log_z_se),
        "log_z_beta": (log_zb + s.log_max, _se(relative, n)),
    }
    if has_base:
        pairs["kl_base"] = _kl_base(s, unit, v_high, log_b, log_zb, low_v2, n_high)
    return Raw(
        log_beta=log_beta,
        pairs=pairs,
        columns=columns,
        n_above=s.n_high,
        kish=n / (relative + 1),
        tvd_slack=slack,
    )


def _in_units_of_z(high: Array, rise: float) -> tuple[Array, ...]:
    """Turn sums of m = w/M into sums of y = w/Z; the sums over l keep their l."""
    s1, s2, s1l, s2l, s2ll = high.T
    up = np.exp(rise)
    return s1 * up, s2 * up**2, s1l * up, s2l * up**2, s2ll * up**2


def _unknown_excess(count: Array, y1: Array, y2: Array, v: Array, low: Array, high: Array) -> Array:
    """Return how far the sum of (y - v)+ over a bin can be above max(0, sum of y - v), its least.

    The bin is known by its edges, the number of draws, and the sums of y and y^2. By the edges the
    mean of (y - v)+ is at most the chord's (high - v)(mean - low)/(high - low), and by mean and
    variance at most Scarf's (1958) bound; where all y are the same, the latter leaves nothing open.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = y1 / count
        variance = np.maximum(y2 / count - mean**2, 0.0)
        chord = np.maximum(high - v, 0.0) * (mean - low) / (high - low)
    # (sqrt(variance + gap^2) - |gap|)/2, without the difference of two near numbers.
    gap = np.abs(mean - v)
    root = np.sqrt(variance + gap**2) + gap
    scarf = np.divide(variance, 2 * root, out=np.zeros_like(root), where=root > 0)
    open_ = np.minimum(chord - np.maximum(mean - v, 0.0), scarf)
    return np.where(count > 0, count * np.maximum(open_, 0.0), 0.0)


def _moment(
    low: Array, high: Array, unit: Array, v_high: Array, n: float, low_v2: Array, n_high: Array
) -> tuple[Array, Array]:
    """Eq. 8 (`eq:qrs_moment`): the mean of a feature under p_beta."""
    f1, f2, f2f = low[:, 0] * unit, low[:, 1] * unit**2, low[:, 2] * unit**2
    g1, g2 = high[:, 0], high[:, 1]
    mean = (f1 + v_high * g1) / n
    on_low = f2f - 2 * mean * f2 + mean**2 * low_v2
    on_high = v_high**2 * (g2 - 2 * mean * g1 + mean**2 * n_high)
    variance = on_low + on_high
    rounding = 1e-14 * (f2f + v_high**2 * g2)  # a feature that is always 1 has a variance of 0
    return mean, _se(np.where(variance < rounding, 0.0, variance) / n, n)


def _kl_base(
    s: Sums,
    unit: Array,
    v_high: Array,
    log_b: Array,
    log_zb: Array,
    low_v2: Array,
    n_high: Array,
) -> tuple[Array, Array]:
    """Appendix C (`eq:qrs_kl_a`): KL(p_beta, a), the mean of s - log Z_beta."""
    f1, f2, f2f = (
        s.low_columns[:, -1, 0] * unit,
        s.low_columns[:, -1, 1] * unit**2,
        s.low_columns[:, -1, 2] * unit**2,
    )
    # On H, s = log beta + log q/a.
    g1 = s.high_columns[:, -1, 0] + n_high * log_b
    g2 = s.high_columns[:, -1, 1] + 2 * log_b * s.high_columns[:, -1, 0] + n_high * log_b**2
    mean = (f1 + v_high * g1) / s.n
    middle = mean + 1
    on_low = f2f - 2 * middle * f2 + middle**2 * low_v2
    on_high = v_high**2 * (g2 - 2 * middle * g1 + middle**2 * n_high)
    return np.maximum(mean - log_zb, 0.0), _se(_over_one((on_low + on_high) / s.n), s.n)


def _over_one(second_moment: Array) -> Array:
    """Return E[v^2] - 1, the variance of a variable of mean 1; what is but rounding is 0."""
    variance = second_moment - 1
    return np.where(variance < 1e-14, 0.0, variance)


def _se(variance: Array, n: float) -> Array:
    """Return the standard error of a mean from the variance of one term."""
    return np.sqrt(np.maximum(variance, 0.0) / n)
