"""Every end of every interval: in units of Z, by hand, and what the draws cannot show."""

import math
from dataclasses import replace

import numpy as np
import pytest

import quasir as qr
from quasir.draws.ceiling import RatioBounds
from quasir.estimation.estimate import Z95
from quasir.estimation.formulas import _unknown_excess
from quasir.estimation.intervals import (
    fit_tail,
    log_interval,
    wilson_interval,
    zero_hit_bound,
)
from quasir.estimation.ratios import SortedRatios

N = 4000


TAILS = {
    "light": np.random.default_rng(0).normal(1.0, 1.0, N),
    "heavy": 2.0 * np.random.default_rng(1).standard_exponential(N),  # k is about 2
    "one ratio": np.where(np.arange(N) % 4, -np.inf, 1.5),
    "few": np.array([0.0, 0.7, 2.0]),
    "ties": np.repeat([-1.0, 0.0, 2.0], [1000, 2000, 1000]),
}


def curve_of(log_w, log_betas, shift=0.0, log_ceiling=math.inf):
    """Return the trade-off of draws whose P was multiplied by e^shift, and their beta too."""
    rng = np.random.default_rng(5)
    features = {"flag": rng.random(len(log_w)) < 0.3, "size": rng.normal(50, 10, len(log_w))}
    columns = {"features": features, "log_base": rng.normal(size=len(log_w))}
    draws = qr.Draws.from_arrays(log_w + shift, np.zeros(len(log_w)), **columns)
    draws = replace(draws, known=RatioBounds(log_ceiling=log_ceiling + shift))
    return qr.tradeoff(draws, log_betas=np.asarray(log_betas) + shift)


@pytest.mark.parametrize("shift", [-800.0, -300.0, -2.0, 3.0, 300.0, 800.0])
@pytest.mark.parametrize("ceiling", [math.inf, 25.0])
@pytest.mark.parametrize("name", TAILS)
def test_scaling_p_and_beta_moves_no_end(name, ceiling, shift):
    """Also at betas above every ratio, where the ends come from the extrapolated tail."""
    log_w = TAILS[name]
    log_betas = log_w.max() + np.array([-4.0, -1.0, -0.1, 0.0, 0.5, 2.0, 6.0])
    plain = curve_of(log_w, log_betas, 0.0, ceiling).columns()
    scaled = curve_of(log_w, log_betas, shift, ceiling).columns()
    assert set(plain) == set(scaled)
    for column, expected in plain.items():
        if column in ("beta", "log_beta", "z", "z_beta"):
            continue
        moved = column.startswith(("log_z", "z")) and not column.endswith("_se")
        np.testing.assert_allclose(
            scaled[column],
            expected + shift * moved,
            rtol=1e-6,
            atol=1e-7,
            err_msg=column,
        )


def test_the_least_upper_end_is_what_n_draws_without_a_hit_allow():
    """One ratio w, on a quarter of the draws: Z = w/4, so w/Z is 4, whatever w is."""
    for log_w in (-300.0, -3.0, 0.0, 1.5, 300.0):
        log_ratio = np.where(np.arange(N) % 4, -np.inf, log_w)
        (cert,) = list(curve_of(log_ratio, [log_w + 1.0]))
        for part in (cert.tvd, cert.tvd_bound, cert.kl):
            assert part.value == part.low == 0
            assert part.high == pytest.approx(4 * zero_hit_bound(N), rel=1e-12)


def test_below_the_only_ratio_the_bound_is_seen():
    """Every draw lies above beta: the bound is 1 for certain, and TVD is 0 on these draws."""
    log_ratio = np.where(np.arange(N) % 4, -np.inf, 1.5)
    (cert,) = list(curve_of(log_ratio, [0.5]))
    bound = cert.tvd_bound
    assert (bound.value, bound.low, bound.high) == (1, 1, 1)
    assert bound.se == 0
    assert math.isnan(cert.tvd.se)
    assert cert.tvd.high == pytest.approx(4 * zero_hit_bound(N), rel=1e-12)


@pytest.mark.parametrize("shift", [0.0, -7.0, 9.0])
def test_a_ceiling_bounds_what_a_heavy_tail_may_hide(shift):
    """With k >= 1: no more than a hit in none of N draws, at the ceiling M, in units of Z.

    And no more than what M alone makes certain.
    """
    log_w = TAILS["heavy"]
    log_z = np.logaddexp.reduce(log_w) - math.log(N)
    top = float(log_w.max())
    for room in (0.3, 1.0):
        log_beta, log_m = top + 0.1, top + room
        (cert,) = list(curve_of(log_w, [log_beta], shift, log_m))
        most = zero_hit_bound(N) * math.exp(log_m - log_z)
        assert cert.tvd_bound.high == pytest.approx(min(most, 1.0), rel=1e-9)
        rise = log_m - log_beta
        assert cert.tvd.high == pytest.approx(min(most, 1 - math.exp(-rise / 2)), rel=1e-9)
        assert cert.truncated_mass.high == pytest.approx(min(most, 1 - math.exp(-rise)), rel=1e-9)
        largest = rise - 1 + math.exp(-rise)
        assert cert.kl.high == pytest.approx(min(most * rise, largest), rel=1e-9)


@pytest.mark.parametrize("over", [0.01, 1.0, 3.0])
def test_beyond_a_light_tail_the_ends_are_the_fits_mass(over):
    log_w = TAILS["light"] - 5.0
    tail = fit_tail(SortedRatios(np.sort(log_w)))
    per_z = math.exp(tail.log_max) / np.exp(log_w).mean()
    log_beta = tail.log_ratio_at(0.1 / N) + over  # above the added draw too
    (cert,) = list(curve_of(log_w, [log_beta]))
    beyond, floor = tail.heavier.above(log_beta), zero_hit_bound(N) * per_z
    assert cert.tvd_bound.high == pytest.approx(min(max(beyond.mass * per_z, floor), 1), rel=1e-9)
    assert cert.kl.high == pytest.approx(max(beyond.log_excess * per_z, floor), rel=1e-9)


def test_the_heavier_tail_is_heavier_and_has_a_mean_if_the_tail_has():
    for name in ("light", "heavy"):
        tail = fit_tail(SortedRatios(np.sort(TAILS[name])))
        rise = 1.96 * (1 + tail.k) / math.sqrt(tail.count)
        assert tail.heavier.k == pytest.approx(tail.k + rise, rel=1e-12)
    few = fit_tail(SortedRatios(np.sort(1.2 * np.random.default_rng(2).normal(size=60))))
    assert few.k < 1
    assert few.k < few.heavier.k < 1


def interval_of_log_z(w):
    """Return the symmetric interval of the log of a mean, by the delta method."""
    value, se = math.log(w.mean()), w.std() / w.mean() / math.sqrt(len(w))
    return value - 1.959963984540054 * se, value + 1.959963984540054 * se


@pytest.mark.parametrize("name", ["light", "heavy"])
def test_log_z_ends_where_one_more_draw_of_the_tail_would_put_it(name):
    log_w = TAILS[name]
    more = fit_tail(SortedRatios(log_w)).log_ratio_at(0.1 / N)
    (cert,) = list(curve_of(log_w, [0.5]))
    log_z = cert.estimates["log_z"]
    low, plain = interval_of_log_z(np.exp(log_w))
    _, added = interval_of_log_z(np.exp(np.append(log_w, more)))
    assert added > plain
    assert log_z.low == pytest.approx(low, abs=1e-9)
    assert log_z.high == pytest.approx(added, abs=1e-9)


def test_the_interval_of_a_positive_number_is_symmetric_in_its_log():
    low, high = log_interval(np.array([0.2, 0.9, 0.0]), np.array([0.05, 0.0, 0.0]))
    up = math.exp(Z95 * 0.25)
    np.testing.assert_allclose(low, [0.2 / up, 0.9, 0.0])
    np.testing.assert_allclose(high, [0.2 * up, 0.9, 0.0])


@pytest.mark.parametrize("beta", [1.5, 3.0, 30.0])
def test_the_interval_of_the_acceptance_rate(beta):
    log_p = np.log(np.tile([1.0, 2.0], 200))
    rate = qr.tradeoff(qr.Draws.from_arrays(log_p, np.zeros(400))).at(beta=beta).acceptance_rate
    accepted = np.minimum(np.tile([1.0, 2.0], 200) / beta, 1.0)
    assert rate.value == pytest.approx(accepted.mean())
    up = math.exp(Z95 * rate.se / rate.value)
    assert (rate.low, rate.high) == pytest.approx((rate.value / up, rate.value * up))


def test_an_acceptance_rate_is_at_most_one():
    log_p = np.log([*np.ones(40), 1e-3])
    rate = qr.tradeoff(qr.Draws.from_arrays(log_p, np.zeros(41))).at(beta=1).acceptance_rate
    assert rate.value * math.exp(Z95 * rate.se / rate.value) > 1
    assert rate.high == 1


def test_a_bin_of_equal_ratios_hides_nothing():
    some = {"v": np.array([1.2]), "low": np.array([1.0]), "high": np.array([2.0])}
    equal = _unknown_excess(np.array([4.0]), np.array([6.0]), np.array([9.0]), **some)
    assert equal[0] == pytest.approx(0.0, abs=1e-12)
    spread = _unknown_excess(np.array([4.0]), np.array([5.2]), np.array([6.9]), **some)
    # The variance is 0.035, the mean 0.1 above v: Scarf's bound is below the chord's 0.14.
    assert spread[0] == pytest.approx(4 * (math.sqrt(0.035 + 0.01) - 0.1) / 2)


def test_tvd_is_seen_also_where_its_error_vanishes():
    """With ratios 1 and 4, a third of them 4, the derivative of TVD by that share is 0."""
    log_p = np.log(np.tile([1.0, 1.0, 4.0], 300))
    tvd = qr.tradeoff(qr.Draws.from_arrays(log_p, np.zeros(900))).at(beta=1).tvd
    assert tvd.value == pytest.approx(1 / 3)
    assert tvd.se == pytest.approx(0.0, abs=1e-12)
    assert 0.3 < tvd.low <= tvd.value <= tvd.high < 0.4


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (3, 10), (10, 10), (50, 1000)])
def test_wilsons_interval_is_where_the_score_test_ends(hits, n):
    """Its ends are the p with |hits/n - p| = z sqrt(p (1 - p)/n)."""
    share = np.array([hits / n])
    for end in wilson_interval(share, np.array([float(n)])):
        p = float(end[0])
        if p not in (0.0, 1.0):
            assert abs(hits / n - p) == pytest.approx(Z95 * math.sqrt(p * (1 - p) / n), rel=1e-9)
    low, high = wilson_interval(share, np.array([float(n)]))
    assert (low[0] == 0) == (hits == 0)
    assert (high[0] == 1) == (hits == n)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
def test_a_boolean_mean_of_equal_ratios_has_wilsons_interval(share):
    """Where all ratios are equal, the mean under p is a proportion of N draws."""
    flag = np.arange(1000) < 1000 * share
    draws = qr.Draws.from_arrays(np.zeros(1000), np.zeros(1000), features={"f": flag})
    moment = qr.tradeoff(draws).at(beta=1).moments["f"]
    low, high = wilson_interval(np.array([share]), np.array([1000.0]))
    assert moment.value == pytest.approx(share, abs=1e-12)
    assert moment.low == pytest.approx(low[0], rel=1e-9, abs=1e-15)
    assert moment.high == pytest.approx(high[0], rel=1e-9)


def one_ratio(possible, n, ratio=1.0):
    """Return draws of which some have P(x) = ratio q(x), and the others P(x) = 0."""
    log_p = np.full(n, -np.inf)
    log_p[:possible] = np.log(ratio)
    return qr.Draws.from_arrays(log_p, np.zeros(n), log_ceiling=np.log(ratio))


@pytest.mark.parametrize("possible", [293, 277, 131])
@pytest.mark.parametrize("ratio", [1.0, 0.1, 7e20])
def test_tvd_and_kl_are_0_on_these_draws(possible, ratio):
    curve = qr.tradeoff(one_ratio(possible, 577, ratio))
    for share in (0.9025428934825543, 0.37, 1e-6):
        cert = curve.at(beta=share * ratio)
        for estimate in (cert.tvd, cert.kl):
            assert estimate.value == estimate.low == 0
            assert 0 < estimate.high < np.inf
        assert not cert.tvd.proved
    assert curve.projection.tvd.value == 0
    assert curve.proposal.tvd.value == pytest.approx(1 - possible / 577)


def test_two_ratios_are_not_one():
    log_p = np.log(np.repeat([1.0, 1.0 + 1e-6], 200))
    cert = qr.tradeoff(qr.Draws.from_arrays(log_p, np.zeros(400))).at(beta=0.9)
    assert 0 < cert.tvd.value < 1e-6
