"""Wealth, its lower bound from bins, and every bound by brute force."""

import math
from fractions import Fraction

import numpy as np
import pytest

from quasir.estimation.betting import (
    CLOSE,
    FRACTIONS,
    LOG_SHARES,
    Bet,
    acceptance_rate_at_least,
    acceptance_rate_at_most,
    is_shown,
    least_shown,
    log_wealth,
    moment_bounds,
    upper_bounds,
)
from quasir.estimation.binned_draws import FINE_BINS, NEAR, BinnedDraws
from quasir.estimation.binned_ratios import Bins
from quasir.estimation.formulas import ceiling_bound
from quasir.estimation.quantities import GUARANTEED

ALPHA = 0.05
CEILING = math.log(30.0)


def brute(x, hi):
    """Log W, one draw at a time."""
    wealth = np.exp(LOG_SHARES)
    for value in x:
        wealth = wealth * (1 - FRACTIONS * value / hi)
    return math.log(wealth.sum())


def draws(seed, n, impossible=0.2, span=1.2):
    rng = np.random.default_rng(seed)
    w = np.minimum(np.exp(rng.normal(0, span, n)), math.exp(CEILING))
    return np.where(rng.random(n) < impossible, 0.0, w)


def spread_of(w, **more):
    return BinnedDraws.of_sorted(len(w), np.sort(np.log(w[w > 0])), **more)


def bisected(holds, low, high):
    """The parameter next to `high` that holds, of those between; `holds(high)` is taken as true."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def enough(x, hi, alpha=ALPHA):
    return log_wealth((x / hi)[None], np.ones((1, len(x))))[0] >= -math.log(alpha)


def test_the_shares_sum_to_one():
    assert np.exp(LOG_SHARES).sum() == pytest.approx(1, abs=1e-14)


def test_wealth_equals_that_of_one_draw_at_a_time():
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 1, (3, 40))
    found = log_wealth(x, np.ones((3, 40)))
    np.testing.assert_allclose(found, [brute(row, 1.0) for row in x], rtol=1e-12)


def test_wealth_does_not_depend_on_the_order_and_counts_repeats():
    rng = np.random.default_rng(1)
    x, often = rng.uniform(-3, 1, 20), rng.integers(1, 5, 20)
    repeated = rng.permutation(np.repeat(x, often))
    one = log_wealth(x[None], often[None].astype(float))
    two = log_wealth(repeated[None], np.ones((1, len(repeated))))
    np.testing.assert_allclose(one, two, rtol=1e-12)


def test_many_rows_give_what_one_row_gives():
    rng = np.random.default_rng(2)
    x, n = rng.uniform(-3, 1, (900, 60)), rng.uniform(0, 9, (900, 60))
    alone = [log_wealth(x[i : i + 1], n[i : i + 1])[0] for i in (0, 450, 899)]
    np.testing.assert_allclose(log_wealth(x, n)[[0, 450, 899]], alone, rtol=1e-12)


def test_the_search_returns_only_what_was_shown():
    seen = []

    def log_w(at, rows):
        value = 40 * (at - 0.3) + 3
        seen.extend(zip(at, value >= 3, strict=True))
        return value

    found = least_shown(log_w, np.zeros(1), np.ones(1), math.exp(-3))[0]
    assert 0.3 <= found <= 0.3001
    assert (found, True) in seen
    assert least_shown(lambda at, rows: at * 0, np.zeros(1), np.ones(1), 0.05)[0] == 1


def exact_bounds(w, beta):
    """Every bound from the draws themselves, without bins."""
    m = math.exp(CEILING)

    def truncated_mass(g, tau):
        x, hi = np.maximum(w - g, 0) - tau * w, (1 - tau) * m - g
        return hi <= 0 or enough(x, hi)

    def kl(kappa):
        log = np.log(np.maximum(w, beta) / beta)
        hi = m * math.log(m / beta) - (m - beta) - kappa * m
        return hi <= 0 or enough(w * log - np.maximum(w - beta, 0) - kappa * w, hi)

    y = np.minimum(w / beta, 1)
    return {
        "truncated_mass": bisected(lambda t: truncated_mass(beta, t), 0.0, 1 - beta / m),
        "tvd": bisected(lambda t: truncated_mass(beta / (1 - t), t), 0.0, 1 - math.sqrt(beta / m)),
        "kl": bisected(kl, 0.0, math.log(m / beta) - 1 + beta / m),
        "rate_high": bisected(lambda r: enough(y - r, 1 - r), y.mean(), 1.0),
        "rate_low": bisected(lambda r: enough(r - y, r), y.mean(), 0.0),
    }


@pytest.mark.parametrize("n", [30, 400, 20_000])
@pytest.mark.parametrize("beta", [0.4, 1.7, 6.0])
def test_bounds_from_bins_are_those_of_the_draws_and_never_sharper(n, beta):
    w = draws(n, n)
    spread, log_beta = spread_of(w), np.array([math.log(beta)])
    exact = exact_bounds(w, beta)
    known = {"alpha": ALPHA, "log_ceiling": CEILING}
    upper = {name: upper_bounds(name, spread, log_beta, **known) for name in GUARANTEED}
    upper["rate_high"] = acceptance_rate_at_most(spread, log_beta, alpha=ALPHA)
    rate = acceptance_rate_at_least(spread, log_beta, alpha=ALPHA)[0]
    for name, found in upper.items():
        assert exact[name] - 1e-9 <= found[0] <= exact[name] * 1.004 + 1e-6, name
    assert exact["rate_low"] * 0.95 - 1e-6 <= rate <= exact["rate_low"] + 1e-9


@pytest.mark.parametrize("fineness", [1, 3, 7])
def test_coarse_bins_give_less_wealth_than_the_draws(fineness):
    """Also where a level divides a bin."""
    for seed in range(4):
        w = draws(seed, 300)
        log_w = np.log(w[w > 0])
        spread = BinnedDraws.of_bins(300, Bins.of(log_w, fineness=fineness), float(log_w.max()))
        for beta in (0.3, 1.3, 2.9, 7.7):
            log_beta, exact = np.array([math.log(beta)]), exact_bounds(w, beta)
            bet = Bet(spread, log_beta, CEILING)
            for tau in (0.05, 0.2, 0.4):
                at = np.array([tau]), np.array([0])
                m = math.exp(CEILING)
                x, hi = np.maximum(w - beta, 0) - tau * w, (1 - tau) * m - beta
                assert bet.truncated_mass(*at)[0] <= brute(x, hi) + 1e-9
                log = np.log(np.maximum(w, beta) / beta)
                x = w * log - np.maximum(w - beta, 0) - tau * w
                hi = m * math.log(m / beta) - (m - beta) - tau * m
                assert bet.kl(*at)[0] <= brute(x, hi) + 1e-9
            assert acceptance_rate_at_most(spread, log_beta, alpha=ALPHA) >= exact["rate_high"]
            assert acceptance_rate_at_least(spread, log_beta, alpha=ALPHA) <= exact["rate_low"]


def test_draws_moved_to_their_mean_would_give_too_much():
    """The test above can fail: one point a bin, at its mean, gives more wealth than the draws."""
    w = np.repeat([0.1, 8.0], [250, 50])
    m, beta, tau = math.exp(CEILING), 2.0, 0.4
    x, hi = np.maximum(w - beta, 0) - tau * w, (1 - tau) * m - beta
    at_mean = np.full(300, w.mean())
    y = np.maximum(at_mean - beta, 0) - tau * at_mean
    assert brute(y, hi) > brute(x, hi) + 1


def test_wealth_rises_with_tau_and_with_the_level():
    spread = spread_of(draws(3, 500))
    taus = np.linspace(0.01, 0.6, 40)
    rows = np.zeros(40, np.intp)
    bet = Bet(spread, np.array([math.log(1.5)]), CEILING)
    for wealth in (bet.truncated_mass(taus, rows), bet.tvd(taus, rows), bet.kl(taus, rows)):
        assert (np.diff(wealth) > 0).all()
    levels = np.linspace(-2, 3, 30)
    bet = Bet(spread, levels, CEILING)
    for test in (bet.truncated_mass, bet.tvd, bet.kl):
        wealth = test(np.full(30, 0.04), np.arange(30))
        assert (np.diff(wealth) > -1e-6).all()


@pytest.mark.parametrize("far", [-2000.0, 2000.0])
def test_levels_far_from_every_ratio(far):
    spread, level = spread_of(draws(5, 200)), np.array([far])
    known = {"alpha": ALPHA, "log_ceiling": CEILING}
    bounds = [upper_bounds(name, spread, level, **known)[0] for name in GUARANTEED]
    assert bounds == ([0, 0, 0] if far > 0 else [1, 1, CEILING - far - 1])
    rate = acceptance_rate_at_least(spread, level, alpha=ALPHA)[0]
    assert rate < 1e-300 if far > 0 else 0.6 < rate < 0.9
    known = {"alpha": ALPHA, "log_z": 0.0}
    assert upper_bounds("tvd", spread, level, **known)[0] == pytest.approx(
        1 if far < 0 else upper_bounds("tvd", spread, np.array([50.0]), **known)[0], abs=1e-3
    )


def feature_bounds(w, share, beta, side):
    """Bounds on the mean of a feature in [0, 1], from the draws, each in part at 1 and at 0."""
    v = np.minimum(w / beta, 1)

    def holds(m):
        ones, zeros = v * (1 - m), -v * m
        x, hi = (ones, zeros), 1 - m
        if side == "low":
            x, hi = (-ones, -zeros), m
        bets = np.concatenate(x)[None] / hi
        weights = np.concatenate([share, 1 - share])[None]
        return log_wealth(bets, weights)[0] >= -math.log(ALPHA)

    mean = (v * share).sum() / v.sum()
    return bisected(holds, mean, 1.0 if side == "high" else 0.0)


@pytest.mark.parametrize("fineness", [2, 12])
@pytest.mark.parametrize("boolean", [True, False])
def test_moments_are_those_of_the_draws_and_never_sharper(boolean, fineness):
    rng = np.random.default_rng(6)
    w = draws(6, 3000)
    share = (rng.random(3000) < 0.2 + 0.5 * (w > 1)).astype(float)
    if not boolean:
        share = 0.3 + 0.4 * share
    phi, low, high = 10 + 5 * share, 10.0, 15.0
    keep = w > 0
    order = np.argsort(w[keep])
    log_w, values = np.log(w[keep])[order], phi[keep][order]
    shifted = values - 12.0
    binned = BinnedDraws.of_bins(
        3000,
        Bins.of(log_w, [shifted], [shifted], fineness=fineness),
        float(log_w[-1]),
        names=("size",),
        low_shift=np.array([12.0]),
        high_shift=np.array([12.0]),
        bounds={"size": (low, high), "other": (0.0, 1.0)},
    )
    ordered = BinnedDraws.of_sorted(
        3000, log_w, features={"size": values}, bounds={"size": (low, high)}
    )
    for beta in (0.5, 2.3):
        levels = np.array([math.log(beta)])
        top, bottom = (10 + 5 * feature_bounds(w, share, beta, side) for side in ("high", "low"))
        for spread, near in ((ordered, 0.002), (binned, 0.2 if fineness == 2 else 0.002)):
            least, most = moment_bounds(spread, "size", levels, alpha=ALPHA)
            assert top - 1e-9 <= most[0] <= top + near
            assert bottom - near <= least[0] <= bottom + 1e-9


def test_shown_agrees_with_the_bound():
    spread = spread_of(draws(8, 4000))
    known = {"alpha": ALPHA, "log_ceiling": CEILING}
    for quantity in GUARANTEED:
        for beta in (0.5, 3.0, 20.0):
            most = upper_bounds(quantity, spread, np.array([math.log(beta)]), **known)[0]
            assert is_shown(quantity, spread, math.log(beta), most, **known)
            assert not is_shown(quantity, spread, math.log(beta), most * 0.998, **known)


def test_with_z_known_the_bound_is_that_of_the_draws():
    w, beta, z = draws(9, 5000), 2.0, 1.5
    spread = spread_of(w)

    def holds(tau):
        g = beta / (1 - tau)
        return enough((1 - tau) * z - np.minimum(w, g), (1 - tau) * z)

    exact = bisected(holds, 0.0, 1.0)
    found = upper_bounds("tvd", spread, np.array([math.log(beta)]), alpha=ALPHA, log_z=math.log(z))[
        0
    ]
    assert exact - 1e-9 <= found <= exact * 1.004


@pytest.mark.parametrize("rise", [1e-9, 1e-6, 1e-4, 9.99e-4, 1e-3, 1.001e-3, 0.5, 30.0])
def test_the_most_that_kl_can_be_has_all_its_digits(rise):
    """It is rise - 1 + e^-rise, here as the whole series in fractions."""
    x, term, exact = Fraction(rise), Fraction(1), Fraction(0)
    for k in range(1, 150):
        term *= -x / k
        exact += term if k > 1 else 0
    assert ceiling_bound("kl", np.array(rise)) == pytest.approx(float(exact), rel=1e-12, abs=0)


@pytest.mark.parametrize("ones", [20_000, 100_000, 198_000])
def test_the_bound_of_a_share_is_as_near_to_it_as_it_can_be(ones):
    """All ratios are 1, and the wealth is that of two kinds of draws."""
    n = 200_000
    flag = np.arange(n) < ones
    spread = BinnedDraws.of_sorted(
        n, np.zeros(n), features={"flag": flag}, bounds={"flag": (0.0, 1.0)}
    )
    most = moment_bounds(spread, "flag", np.zeros(1), alpha=ALPHA)[1][0]

    def holds(share):
        bets, weights = np.array([[1.0, -share / (1 - share)]]), np.array([[ones, n - ones]])
        return log_wealth(bets, weights)[0] >= -math.log(ALPHA)

    least = bisected(holds, ones / n, 1.0)
    assert least - 1e-12 <= most <= least + 2 * CLOSE * (least - ones / n)


@pytest.mark.parametrize("span", [0.004, 0.3, 1.0, 7.0, 300.0])
def test_bins_of_draws_in_memory_are_as_fine_as_their_number_allows(span):
    spread = BinnedDraws.of_sorted(20_000, np.linspace(-span, 0.0, 20_000))
    near = spread.log_low >= -NEAR
    width, span = float((spread.log_high - spread.log_low)[near].max()), min(span, NEAR)
    assert span / FINE_BINS * (1 - 1e-9) <= width <= 2 * span / FINE_BINS
    assert FINE_BINS / 2 <= near.sum() <= FINE_BINS + 1
