"""Promises at one beta and along many, the promised choice of beta, and what they rest on."""

import math

import numpy as np
import pytest

from quasir.errors import InputError
from quasir.estimation.ground import Ground, ground_of_base
from quasir.estimation.promise import promised_level, promises
from quasir.estimation.spread import Spread
from quasir.estimation.two_sided import (
    acceptance_rate_at_least,
    acceptance_rate_at_most,
    moment_at_least,
    moment_at_most,
)
from quasir.estimation.upper_bounds import shown, tvd_at_most

CEILING = 3.0
KNOWN = Ground(log_ceiling=CEILING, basis="It rests on the ceiling e^3.")


def spread_of(n=20_000, seed=0, impossible=0.3, scale=1.0):
    rng = np.random.default_rng(seed)
    log_w = np.minimum(rng.normal(size=n) * scale, CEILING)
    log_w = np.sort(log_w[rng.random(n) >= impossible])
    return Spread.of_sorted(
        n,
        log_w,
        features={"flag": rng.random(len(log_w)) < 0.3, "size": rng.uniform(2, 5, len(log_w))},
        bounds={"flag": (0.0, 1.0), "size": (0.0, 10.0)},
    )


@pytest.mark.parametrize("quantity", ["tvd", "lost", "kl"])
def test_the_promised_beta_is_the_least_but_for_two_ten_thousandths(quantity):
    spread = spread_of()
    for most in (0.03, 0.05, 0.08, 0.1, 0.13, 0.2, 0.3, 0.4):
        log_beta = promised_level(spread, quantity, most, KNOWN)
        below = {"alpha": 1 - 0.95, "log_ceiling": CEILING}
        assert shown(quantity, spread, log_beta, most, **below)
        assert not shown(
            quantity, spread, log_beta - 2e-4, most, **below
        )  # a search to 1e-4, and one step


def test_a_promise_has_every_part():
    found = promises(spread_of(), np.log([0.5, 2.0, 5.0]), KNOWN)
    assert len(found) == 3
    for promise in found:
        assert 0 < promise.tvd <= promise.lost < 1
        assert 0 < promise.kl
        low, high = promise.acceptance_rate
        assert 0 < low < high < 1
        assert promise.moments["flag"][0] < 0.3 < promise.moments["flag"][1]
        assert promise.moments["size"][0] < 3.5 < promise.moments["size"][1]
        assert promise.confidence == 0.95
        assert promise.basis == KNOWN.basis
    assert (np.diff(found.tvd) < 0).all()


def test_at_the_ceiling_and_above_everything_is_certain():
    for n in (0, 1, 1000):
        for promise in promises(spread_of(n), np.array([CEILING, CEILING + 1]), KNOWN):
            assert (promise.tvd, promise.lost, promise.kl) == (0, 0, 0)


@pytest.mark.parametrize("n", [0, 1])
def test_few_or_no_draws_promise_what_is_certain(n):
    log_beta = 1.0
    promise = promises(spread_of(n), np.array([log_beta]), KNOWN)[0]
    rise = CEILING - log_beta
    assert promise.lost == pytest.approx(1 - math.exp(-rise))
    assert promise.tvd == pytest.approx(1 - math.exp(-rise / 2))
    assert promise.kl == pytest.approx(rise - 1 + math.exp(-rise))
    assert promise.acceptance_rate[0] == 0 or n
    assert promise.moments["size"] == (0, 10) or n


def test_draws_with_p_of_zero_only():
    promise = promises(spread_of(1000, impossible=1.1), np.array([0.0]), KNOWN)[0]
    assert promise.tvd == pytest.approx(1 - math.exp(-CEILING / 2))
    assert promise.acceptance_rate[0] == 0
    assert 0 < promise.acceptance_rate[1] < 0.01
    assert promise.moments["flag"] == (0, 1)
    assert promised_level(spread_of(1000, impossible=1.1), "tvd", 0.1, KNOWN) == pytest.approx(
        CEILING + 2 * math.log(0.9), abs=2e-4
    )


def test_more_confidence_promises_less():
    tvd = [
        promises(spread_of(), np.zeros(1), KNOWN, confidence=c)[0].tvd for c in (0.5, 0.95, 0.999)
    ]
    assert tvd == sorted(tvd)
    assert tvd[0] < tvd[2]
    for wrong in (0, 1, 95, -0.1):
        with pytest.raises(InputError, match="between 0 and 1"):
            promises(spread_of(), np.zeros(1), KNOWN, confidence=wrong)


@pytest.mark.parametrize("quantity", ["tvd", "lost", "kl"])
def test_the_choice_is_the_least_beta_whose_promise_is_kept(quantity):
    spread = spread_of()
    log_beta = promised_level(spread, quantity, 0.1, KNOWN)
    found = promises(spread, np.array([log_beta - 0.01, log_beta]), KNOWN)
    bound = getattr(found, quantity)
    assert bound[1] <= 0.1 < bound[0]
    with pytest.raises(InputError, match="cannot be promised"):
        promised_level(spread, "tvd_bound", 0.1, KNOWN)


def test_a_choice_of_nothing_lost_is_the_ceiling_and_of_everything_no_level():
    assert promised_level(spread_of(), "tvd", 0.0, KNOWN) == CEILING
    assert promised_level(spread_of(), "tvd", 1.0, KNOWN) == -math.inf


@pytest.mark.parametrize("by", [-800.0, 800.0])
def test_the_choice_scales_with_p(by):
    spread = spread_of()
    moved = Spread(
        **{**vars_of(spread), "log_low": spread.log_low + by, "log_high": spread.log_high + by}
    )
    one = promised_level(spread, "tvd", 0.1, KNOWN)
    two = promised_level(moved, "tvd", 0.1, Ground(log_ceiling=CEILING + by))
    assert two - by == pytest.approx(one, abs=2e-4)


def vars_of(spread):
    return {name: getattr(spread, name) for name in spread.__dataclass_fields__}


def test_without_a_ceiling_nothing_is_promised_and_the_words_say_what_would_help():
    found = promises(spread_of(), np.zeros(2), Ground())
    promise = found[0]
    assert (promise.tvd, promise.lost, promise.kl) == (None, None, None)
    assert promise.acceptance_rate[0] > 0
    assert "Mix the proposal with the base" in promise.basis
    assert promised_level(spread_of(), "tvd", 0.1, Ground()) is None
    assert not Ground().solid


def test_a_ceiling_that_a_draw_exceeds_is_not_believed():
    low = Ground(log_ceiling=CEILING - 0.5, basis="a wrong one")
    promise = promises(spread_of(), np.zeros(1), low)[0]
    assert promise.tvd is None
    assert "exceeds it" in promise.basis
    assert promised_level(spread_of(), "tvd", 0.1, low) is None
    rounded = Ground(log_ceiling=CEILING - 1e-12)
    assert promises(spread_of(), np.zeros(1), rounded)[0].tvd is not None


def test_with_z_known_tvd_and_lost_are_promised():
    spread = spread_of(impossible=0.0)
    log_z = 0.47  # a little above that of the law, 0.4687...
    ground = Ground(log_z=log_z, basis="Z is known.")
    promise = promises(spread, np.log([2.0]), ground)[0]
    assert promise.kl is None
    assert 0.1 < promise.tvd < promise.lost < 0.4
    chosen = promised_level(spread, "tvd", 0.2, ground)
    assert promises(spread, np.array([chosen]), ground)[0].tvd <= 0.2
    assert promised_level(spread, "kl", 0.2, ground) is None


def test_draws_of_the_base_bound_z():
    rng = np.random.default_rng(3)
    flags = rng.random(50_000) < 0.02
    base = Spread.of_sorted(50_000, np.zeros(int(flags.sum())))
    ground = ground_of_base(base, 0.0)
    assert 0.02 < math.exp(ground.log_z) < 0.024
    # q draws the rare items half of the time: w = 0.02/0.5 there, and Z = 0.02.
    drawn = int((rng.random(20_000) < 0.5).sum())
    spread = Spread.of_sorted(20_000, np.full(drawn, math.log(0.04)))
    promise = promises(spread, np.array([math.log(0.04)]), ground)[0]
    assert 0.06 < promise.tvd < 0.25
    assert "draws of the base" in promise.basis
    with pytest.raises(InputError, match="make it again"):
        promises(spread, np.zeros(1), ground, confidence=0.99)


def test_the_order_of_draws_and_how_they_are_given_does_not_matter():
    log_w = np.sort(np.random.default_rng(4).normal(size=3000).round(1))
    values, often = np.unique(log_w, return_counts=True)
    one = promises(Spread.of_sorted(3000, log_w), np.zeros(1), Ground(log_ceiling=5.0))[0]
    two = promises(
        Spread.of_sorted(3000, values, often=often), np.zeros(1), Ground(log_ceiling=5.0)
    )[0]
    assert one.tvd == pytest.approx(two.tvd, rel=1e-9)
    assert one.acceptance_rate == pytest.approx(two.acceptance_rate, rel=1e-9)


def test_two_ends_share_alpha():
    spread, level = spread_of(), np.zeros(1)
    promise = promises(spread, level, KNOWN, confidence=0.9)[0]
    low = acceptance_rate_at_least(spread, level, alpha=0.05)[0]
    high = acceptance_rate_at_most(spread, level, alpha=0.05)[0]
    assert promise.acceptance_rate == pytest.approx((low, high), rel=1e-12)
    low = moment_at_least(spread, "flag", level, alpha=0.05)[0]
    high = moment_at_most(spread, "flag", level, alpha=0.05)[0]
    assert promise.moments["flag"] == pytest.approx((low, high), rel=1e-12)


def test_the_bound_on_z_and_the_promise_share_alpha():
    base, spread, level = spread_of(seed=5), spread_of(seed=6), np.array([1.0])
    ground = ground_of_base(base, CEILING, confidence=0.9)
    rate = acceptance_rate_at_most(base, np.array([CEILING]), alpha=0.05)[0]
    assert ground.log_z == pytest.approx(CEILING + math.log(rate), rel=1e-12)
    expected = tvd_at_most(spread, level, alpha=0.05, log_z=ground.log_z)[0]
    assert promises(spread, level, ground, confidence=0.9)[0].tvd == pytest.approx(expected)
    chosen = promised_level(spread, "tvd", expected, ground, confidence=0.9)
    assert chosen == pytest.approx(1.0, abs=2e-3)
