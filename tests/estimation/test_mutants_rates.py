"""Intervals of rates and of TVD, against what is worked out by hand."""

import math

import numpy as np
import pytest

import quasir as qr
from quasir.constraints.constrain import ROUNDS
from quasir.core.streams import BLOCK
from quasir.estimation.estimate import Z95
from quasir.estimation.formulas import _unknown_excess
from quasir.estimation.intervals import log_interval


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


def test_rounds_of_a_fit_about_double_the_draws():
    assert ROUNDS[0] == 4 * BLOCK
    growth = np.divide(ROUNDS[1:], ROUNDS[:-1])
    assert (growth > 1.4).all()
    assert (growth <= 2).all()
