"""Guarantees at one beta and along many, the guaranteed choice of beta, and what they rest on."""

import math

import numpy as np
import pytest

from quasir.errors import InputError
from quasir.estimation.betting import (
    acceptance_rate_at_least,
    acceptance_rate_at_most,
    is_shown,
    moment_bounds,
    upper_bounds,
)
from quasir.estimation.binned_draws import BinnedDraws
from quasir.estimation.guarantee import Assumptions, guaranteed_level, guarantees

CEILING = 3.0
KNOWN = Assumptions(log_ceiling=CEILING, basis="It rests on the ceiling e^3.")


def spread_of(n=20_000, seed=0, impossible=0.3, scale=1.0):
    rng = np.random.default_rng(seed)
    log_w = np.minimum(rng.normal(size=n) * scale, CEILING)
    log_w = np.sort(log_w[rng.random(n) >= impossible])
    return BinnedDraws.of_sorted(
        n,
        log_w,
        features={"flag": rng.random(len(log_w)) < 0.3, "size": rng.uniform(2, 5, len(log_w))},
        bounds={"flag": (0.0, 1.0), "size": (0.0, 10.0)},
    )


@pytest.mark.parametrize("quantity", ["tvd", "truncated_mass", "kl"])
def test_the_guaranteed_beta_is_the_least_but_for_two_ten_thousandths(quantity):
    spread = spread_of()
    for most in (0.03, 0.05, 0.08, 0.1, 0.13, 0.2, 0.3, 0.4):
        log_beta = guaranteed_level(spread, quantity, most, KNOWN)
        below = {"alpha": 1 - 0.95, "log_ceiling": CEILING}
        assert is_shown(quantity, spread, log_beta, most, **below)
        # A search to 1e-4, and one step.
        assert not is_shown(quantity, spread, log_beta - 2e-4, most, **below)
    found = guarantees(spread, np.array([log_beta - 0.01, log_beta]), KNOWN)
    bound = getattr(found, quantity)
    assert bound[1] <= most < bound[0]


def test_at_the_ceiling_and_above_everything_is_certain():
    for n in (0, 1, 1000):
        for guarantee in guarantees(spread_of(n), np.array([CEILING, CEILING + 1]), KNOWN):
            assert (guarantee.tvd, guarantee.truncated_mass, guarantee.kl) == (0, 0, 0)


@pytest.mark.parametrize("n", [0, 1])
def test_few_or_no_draws_guarantee_what_is_certain(n):
    log_beta = 1.0
    guarantee = guarantees(spread_of(n), np.array([log_beta]), KNOWN)[0]
    rise = CEILING - log_beta
    assert guarantee.truncated_mass == pytest.approx(1 - math.exp(-rise))
    assert guarantee.tvd == pytest.approx(1 - math.exp(-rise / 2))
    assert guarantee.kl == pytest.approx(rise - 1 + math.exp(-rise))
    assert guarantee.acceptance_rate[0] == 0 or n
    assert guarantee.moments["size"] == (0, 10) or n


def test_draws_with_p_of_zero_only():
    guarantee = guarantees(spread_of(1000, impossible=1.1), np.array([0.0]), KNOWN)[0]
    assert guarantee.tvd == pytest.approx(1 - math.exp(-CEILING / 2))
    assert guarantee.acceptance_rate[0] == 0
    assert 0 < guarantee.acceptance_rate[1] < 0.01
    assert guarantee.moments["flag"] == (0, 1)
    assert guaranteed_level(spread_of(1000, impossible=1.1), "tvd", 0.1, KNOWN) == pytest.approx(
        CEILING + 2 * math.log(0.9), abs=2e-4
    )


def test_a_tvd_of_0_chooses_the_ceiling_and_one_of_1_no_level():
    assert guaranteed_level(spread_of(), "tvd", 0.0, KNOWN) == CEILING
    assert guaranteed_level(spread_of(), "tvd", 1.0, KNOWN) == -math.inf


def test_a_ceiling_that_a_draw_exceeds_is_not_believed():
    low = Assumptions(log_ceiling=CEILING - 0.5, basis="a wrong one")
    low = low.without_violated_ceiling(spread_of().log_top)
    guarantee = guarantees(spread_of(), np.zeros(1), low)[0]
    assert guarantee.tvd is None
    assert "exceeds it" in guarantee.basis
    assert guaranteed_level(spread_of(), "tvd", 0.1, low) is None
    rounded = Assumptions(log_ceiling=CEILING - 1e-12)
    assert rounded.without_violated_ceiling(CEILING) is rounded
    assert guarantees(spread_of(), np.zeros(1), rounded)[0].tvd is not None


def test_draws_of_the_base_bound_z():
    rng = np.random.default_rng(3)
    flags = rng.random(50_000) < 0.02
    base = BinnedDraws.of_sorted(50_000, np.zeros(int(flags.sum())))
    rests_on = Assumptions.of_base(base, 0.0)
    assert 0.02 < math.exp(rests_on.log_z) < 0.024
    # q draws the rare items half of the time: w = 0.02/0.5 there, and Z = 0.02.
    drawn = int((rng.random(20_000) < 0.5).sum())
    spread = BinnedDraws.of_sorted(20_000, np.full(drawn, math.log(0.04)))
    guarantee = guarantees(spread, np.array([math.log(0.04)]), rests_on)[0]
    assert 0.06 < guarantee.tvd < 0.25
    assert "draws of the base" in guarantee.basis
    with pytest.raises(InputError, match="make it again"):
        guarantees(spread, np.zeros(1), rests_on, confidence=0.99)


def test_two_ends_share_alpha():
    spread, level = spread_of(), np.zeros(1)
    guarantee = guarantees(spread, level, KNOWN, confidence=0.9)[0]
    low = acceptance_rate_at_least(spread, level, alpha=0.05)[0]
    high = acceptance_rate_at_most(spread, level, alpha=0.05)[0]
    assert guarantee.acceptance_rate == pytest.approx((low, high), rel=1e-12)
    low, high = moment_bounds(spread, "flag", level, alpha=0.05)
    assert guarantee.moments["flag"] == pytest.approx((low[0], high[0]), rel=1e-12)


def test_the_bound_on_z_and_the_guarantee_share_alpha():
    base, spread, level = spread_of(seed=5), spread_of(seed=6), np.array([1.0])
    rests_on = Assumptions.of_base(base, CEILING, confidence=0.9)
    rate = acceptance_rate_at_most(base, np.array([CEILING]), alpha=0.05)[0]
    assert rests_on.log_z == pytest.approx(CEILING + math.log(rate), rel=1e-12)
    expected = upper_bounds("tvd", spread, level, alpha=0.05, log_z=rests_on.log_z)[0]
    assert guarantees(spread, level, rests_on, confidence=0.9)[0].tvd == pytest.approx(expected)
    chosen = guaranteed_level(spread, "tvd", expected, rests_on, confidence=0.9)
    assert chosen == pytest.approx(1.0, abs=2e-3)
