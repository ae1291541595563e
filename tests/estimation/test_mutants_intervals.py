"""Every end of every interval: in units of Z, and what the draws cannot show."""

import math
from dataclasses import replace

import numpy as np
import pytest

import quasir as qr
from quasir.draws.ceiling import RatioBounds
from quasir.estimation.intervals import fit_tail, zero_hit_bound
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
    draws = qr.Draws.from_arrays(log_w + shift, np.zeros(len(log_w)), features=features)
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
