r"""Equations 2-10 and appendix C (`appx:TVD-and-KL-estimates`), with delta-method variances.

With w = P/q, w_b = min(w, beta), y = w/Z and v = w_b/Z_b, each estimate is a mean over the
draws or a smooth function of such means, so its variance is that of its influence function
over N. The influence functions, all of mean zero, are

====================  ==========================================================
Z_beta, relative      v - 1
Z, relative           y - 1
truncated mass        (Z_beta/Z) (y - v)
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

Pair: TypeAlias = tuple[Array, Array]  # a value and its standard error, at each beta


@dataclass(frozen=True, kw_only=True)
class Raw:
    """Values and standard errors at each beta, without intervals."""

    log_beta: Array
    pairs: dict[str, Pair]  # by the name of a quantity; Z and Z_beta as logarithms
    columns: list[Pair]  # the means of the features, in their order
    n_above: Array  # draws above beta
    kish: Array  # Kish's effective number of draws from p_beta
    tvd_slack: Array  # how far TVD may be from its value on the draws: 0 unless binned


@dataclass(frozen=True, kw_only=True)
class _Terms:
    """The terms that the equations share, with logarithms relative to that of the largest ratio."""

    sums: Sums  # at beta
    everything: bool  # whether the draws with P(x) = 0 count among H
    n_high: Array  # draws in H
    log_beta: Array
    log_z: float
    log_z_beta: Array
    log_rate: Array  # log of the acceptance rate Z_beta/beta
    unit: Array  # turns the sums over L from their unit into sums of v
    low_v: Array  # over L, the sums of v and v^2
    low_v2: Array
    v_high: Array  # v on H, the constant beta/Z_beta
    r: Array  # Z_beta/Z: on L, y = r v
    high_y: tuple[Array, ...]  # over H: y, y^2, y l, y^2 l, y^2 l^2, with l = log M - log w
    variance_v: Array  # the variance of v under q

    @property
    def truncated(self) -> Array:
        """1 - Z_beta/Z as a difference of sums over H alone: no digits are lost near 0."""
        return (self.high_y[0] - self.n_high * self.v_high * self.r) / self.sums.n


def estimate(
    sums_at: Callable[[Array], Sums],
    log_beta: Array,
    *,
    has_base: bool = False,
    everything: bool = False,
) -> Raw:
    """Estimate everything at every beta; `everything` counts draws with P(x) = 0 among H."""
    sums = sums_at(log_beta)
    t = _terms(sums, log_beta, everything)
    tvd, tvd_slack = _tvd(t, sums_at)
    pairs = {
        "acceptance_rate": _acceptance_rate(t),
        "tvd": tvd,
        "truncated_mass": _truncated_mass(t),
        "tvd_bound": _tvd_bound(t),
        "kl": _kl(t),
        "log_z": _log_z(t),
        "log_z_beta": _log_z_beta(t),
    }
    if has_base:
        pairs["kl_base"] = _kl_base(t)
    return Raw(
        log_beta=log_beta,
        pairs=pairs,
        columns=[_moment(t, i) for i in range(sums.low_columns.shape[1] - has_base)],
        n_above=sums.n_high,
        kish=sums.n / (t.variance_v + 1),
        tvd_slack=tvd_slack,
    )


def _terms(s: Sums, log_beta: Array, everything: bool) -> _Terms:
    """Return Z (Eq. 5), Z_beta (Eq. 6, `eq:zeta_beta`), and the sums of y and v over L and H."""
    n, n_high = s.n, np.full_like(s.n_high, s.n) if everything else s.n_high
    log_b, log_unit = log_beta - s.log_max, s.log_unit - s.log_max
    with np.errstate(divide="ignore"):
        log_z = float(np.log(s.total[0] / n))
        # Z_beta is within a factor N of beta, or of the largest ratio where H is empty.
        near = np.where(n_high > 0, log_b, log_unit)
        log_low, log_high = (log_unit - near) + np.log(s.low[:, 0]), np.log(n_high)
        gap = np.logaddexp(log_low, log_high) - np.log(n)
        # Sums over L come from below and those over H from above; where L is all there is,
        # rounding must not push Z_beta past Z.
        log_z_beta = near + gap if everything else np.minimum(near + gap, log_z)
    # Where L or H is empty, the factor of its sums is 0, not a number that overflows.
    unit = np.exp(np.where(s.low[:, 0] > 0, (log_unit - near) - gap, -np.inf))
    v_high = np.exp(np.where(n_high > 0, -gap, -np.inf))
    low_v2 = s.low[:, 1] * unit**2
    return _Terms(
        sums=s,
        everything=everything,
        n_high=n_high,
        log_beta=log_b,
        log_z=log_z,
        log_z_beta=log_z_beta,
        log_rate=gap + (near - log_b),
        unit=unit,
        low_v=s.low[:, 0] * unit,
        low_v2=low_v2,
        v_high=v_high,
        r=np.exp(log_z_beta - log_z),
        high_y=_in_units_of_z(s.high, log_z),
        variance_v=_over_one((low_v2 + n_high * v_high**2) / n),
    )


def _acceptance_rate(t: _Terms) -> Pair:
    """Eq. 2 (`eq:ar`): Z_beta/beta."""
    rate = np.exp(t.log_rate)
    return np.minimum(rate, 1.0), rate * _se(t.variance_v, t.sums.n)


def accepted_draws(s: Sums, log_beta: Array) -> Array:
    """Return N times Eq. 2 (`eq:ar`), the sum over L of w/beta and |H|, for sums at these betas."""
    accepted: Array = s.low[:, 0] * np.exp(s.log_unit - log_beta) + s.n_high
    return accepted


def _log_z(t: _Terms) -> Pair:
    """Eq. 5: log Z, the same at every beta."""
    _, total_y2, *_ = _in_units_of_z(t.sums.total, t.log_z)
    like, se = np.ones_like(t.log_beta), float(_se(_over_one(total_y2 / t.sums.n), t.sums.n))
    return like * (t.log_z + t.sums.log_max), like * se


def _log_z_beta(t: _Terms) -> Pair:
    """Eq. 6 (`eq:zeta_beta`): log Z_beta."""
    return t.log_z_beta + t.sums.log_max, _se(t.variance_v, t.sums.n)


def _truncated_mass(t: _Terms) -> Pair:
    """Not in the paper: 1 - Z_beta/Z, p's mass above beta q. TVD <= it <= 1 - p(A_beta)."""
    n, (h1, h2, *_) = t.sums.n, t.high_y
    on_high = h2 - 2 * t.v_high * h1 + t.n_high * t.v_high**2
    variance = t.r**2 * (t.low_v2 * t.truncated**2 + on_high) / n
    return np.clip(t.truncated, 0.0, 1.0), _se(variance, n)


def _tvd_bound(t: _Terms) -> Pair:
    """Eqs. 3, 4 and 7 (`eq:qrs_upper_bound`, `eq:p_A_beta`): B = 1 - p(A_beta), p's mass on H."""
    n, (h1, h2, *_) = t.sums.n, t.high_y
    bound = h1 / n
    variance = (h2 * (t.low_v * t.r / n) ** 2 + t.low_v2 * t.r**2 * bound**2) / n
    return np.clip(bound, 0.0, 1.0), _se(variance, n)


def _moment(t: _Terms, i: int) -> Pair:
    """Eq. 8 (`eq:qrs_moment`): the mean of feature i under p_beta."""
    n, low, high = t.sums.n, t.sums.low_columns[:, i], t.sums.high_columns[:, i]
    f1, f2, f2f = low[:, 0] * t.unit, low[:, 1] * t.unit**2, low[:, 2] * t.unit**2
    g1, g2 = high[:, 0], high[:, 1]
    mean = (f1 + t.v_high * g1) / n
    variance = _squared_deviations(t, (f2, f2f), (g1, g2), mean)
    rounding = 1e-14 * (f2f + t.v_high**2 * g2)  # a feature that is always 1 has a variance of 0
    return mean, _se(np.where(variance < rounding, 0.0, variance) / n, n)


def _tvd(t: _Terms, sums_at: Callable[[Array], Sums]) -> tuple[Pair, Array]:
    """Eq. 9 (`eq:qrs_tvd`): TVD(p, p_beta) = p_C - q_C, and its slack where ratios are binned."""
    # Sums over C alone, a part of H where y is above v: no digits are lost as TVD goes to 0.
    n, n_high, v_high = t.sums.n, t.n_high, t.v_high
    h1, h2, *_ = t.high_y
    log_beta = t.sums.log_cut
    log_cut = log_beta + (t.log_z - t.log_z_beta)
    c = sums_at(log_cut if t.everything else np.maximum(log_cut, log_beta))
    c1, c2, *_ = _in_units_of_z(c.high, t.log_z)
    c_n, slack = c.n_high, np.zeros_like(c1)
    if c.straddled is not None:
        b = c.straddled
        b1, b2 = b.sums[:, 0] * np.exp(-t.log_z), b.sums[:, 1] * np.exp(-2 * t.log_z)
        low, high = (np.exp(edge - t.sums.log_max - t.log_z) for edge in (b.log_low, b.log_high))
        slack = _unknown_excess(b.count, b1, b2, v_high, low, high) / (2 * n)
        # The bin goes where most of it belongs, and half of what that may miss is added to TVD.
        mine = b1 > b.count * v_high
        c1, c2, c_n = (
            part + np.where(mine, of_bin, 0.0)
            for part, of_bin in ((c1, b1), (c2, b2), (c_n, b.count))
        )
    p_c, q_c = c1 / n, c_n * v_high / n
    up, down = 1 - p_c, v_high * (1 - q_c)
    variance = (
        (up**2 * c2 - 2 * up * down * c1 + down**2 * c_n)
        + p_c**2 * (h2 - c2)
        - 2 * p_c * q_c * v_high * (h1 - c1)
        + (q_c * v_high) ** 2 * (n_high - c_n)
        + t.low_v2 * (q_c - p_c * t.r) ** 2
    ) / n
    return (np.clip(p_c - q_c + slack, 0.0, 1.0), _se(variance, n)), slack


def _kl(t: _Terms) -> Pair:
    """Eq. 10 (`eq:qrs_kl`): KL(p, p_beta) = log Z_beta/Z + E[y g]."""
    n, n_high, v_high = t.sums.n, t.n_high, t.v_high
    h1, h2, h1l, h2l, h2ll = t.high_y
    k = (-t.log_beta * h1 - h1l) / n  # E[y g]: on H, g = -log_beta - l
    lost = t.truncated
    small = (lost < 0.5) & (not t.everything)  # log1p then loses no digits as KL goes to 0
    with np.errstate(invalid="ignore", divide="ignore"):
        kl = np.where(small, np.log1p(-lost), t.log_z_beta - t.log_z) + k
    on_low = np.where(small, lost + k * lost - k, 1 - (1 + k) * t.r)
    a = -t.log_beta - 1 - k
    variance = (
        t.low_v2 * on_low**2
        + n_high * v_high**2
        + 2 * v_high * (a * h1 - h1l)
        + (a**2 * h2 - 2 * a * h2l + h2ll)
    ) / n
    return np.maximum(kl, 0.0), _se(variance, n)


def _kl_base(t: _Terms) -> Pair:
    """Appendix C (`eq:qrs_kl_a`): KL(p_beta, a), the mean of s - log Z_beta under p_beta."""
    n, low, high = t.sums.n, t.sums.low_columns[:, -1], t.sums.high_columns[:, -1]
    f1, f2, f2f = low[:, 0] * t.unit, low[:, 1] * t.unit**2, low[:, 2] * t.unit**2
    # On H, s = log beta + log q/a.
    g1 = high[:, 0] + t.n_high * t.log_beta
    g2 = high[:, 1] + 2 * t.log_beta * high[:, 0] + t.n_high * t.log_beta**2
    mean = (f1 + t.v_high * g1) / n
    second_moment = _squared_deviations(t, (f2, f2f), (g1, g2), mean + 1) / n
    return np.maximum(mean - t.log_z_beta, 0.0), _se(_over_one(second_moment), n)


def _in_units_of_z(sums: Array, log_z: float) -> tuple[Array, ...]:
    """Turn sums of m = w/M, as in `Sums.high`, into sums of y = w/Z; l stays as it is."""
    s1, s2, s1l, s2l, s2ll = sums.T
    up = np.exp(-log_z)
    return s1 * up, s2 * up**2, s1l * up, s2l * up**2, s2ll * up**2


def _unknown_excess(count: Array, y1: Array, y2: Array, v: Array, low: Array, high: Array) -> Array:
    """Return by how much the sum of (y - v)+ over a bin can exceed max(0, sum of y - v)."""
    # The chord between the bin's edges bounds it by the mean, Scarf (1958) by mean and variance.
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = y1 / count
        variance = np.maximum(y2 / count - mean**2, 0.0)
        chord = np.maximum(high - v, 0.0) * (mean - low) / (high - low)
    # (sqrt(variance + gap^2) - |gap|)/2, without subtracting two close numbers.
    gap = np.abs(mean - v)
    root = np.sqrt(variance + gap**2) + gap
    scarf = np.divide(variance, 2 * root, out=np.zeros_like(root), where=root > 0)
    open_ = np.minimum(chord - np.maximum(mean - v, 0.0), scarf)
    return np.where(count > 0, count * np.maximum(open_, 0.0), 0.0)


def _squared_deviations(
    t: _Terms, low: tuple[Array, Array], high: tuple[Array, Array], centre: Array
) -> Array:
    """Return the sum of v^2 (f - centre)^2, over L of v^2 f and v^2 f^2, over H of f and f^2."""
    (f2, f2f), (g1, g2) = low, high
    on_low = f2f - 2 * centre * f2 + centre**2 * t.low_v2
    on_high = t.v_high**2 * (g2 - 2 * centre * g1 + centre**2 * t.n_high)
    return on_low + on_high


def _over_one(second_moment: Array) -> Array:
    """Return E[v^2] - 1, the variance of a variable of mean 1, or 0 where it is only rounding."""
    variance = second_moment - 1
    return np.where(variance < 1e-14, 0.0, variance)


def _se(variance: Array, n: float) -> Array:
    """Return the standard error of a mean from the variance of one term."""
    return np.sqrt(np.maximum(variance, 0.0) / n)


def ceiling_bound(quantity: str, rise: Array) -> Array:
    """Return what a ceiling M alone says, whatever the draws, at rise = log(M/beta)."""
    # TVD is at most 1 - e^(-rise/2), the truncated mass 1 - e^-rise, and KL rise - 1 + e^-rise.
    rise = np.maximum(rise, 0.0)
    if quantity == "kl":
        # Where the rise is small, a series: the difference would cancel.
        small = np.minimum(rise, 1e-3)
        series = small**2 * (0.5 - small * (1 / 6 - small * (1 / 24 - small / 120)))
        most: Array = np.where(rise < 1e-3, series, rise + np.expm1(-rise))
        return most
    less: Array = -np.expm1(-rise / 2 if quantity == "tvd" else -rise)
    return less
