"""Draws that all have one ratio: p_beta is p on them at every beta, and no rounding is shown."""

import numpy as np
import pytest

import quasir as qr


def draws(possible, n, ratio=1.0):
    """Return draws of which some have P(x) = ratio q(x), and the others P(x) = 0."""
    log_p = np.full(n, -np.inf)
    log_p[:possible] = np.log(ratio)
    return qr.Draws.from_arrays(log_p, np.zeros(n), log_ceiling=np.log(ratio))


@pytest.mark.parametrize("possible", [293, 277, 131])
@pytest.mark.parametrize("ratio", [1.0, 0.1, 7e20])
def test_tvd_and_kl_are_0_on_these_draws(possible, ratio):
    curve = qr.tradeoff(draws(possible, 577, ratio))
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


def test_no_upper_end_is_above_what_the_ceiling_makes_certain():
    """A heavy tail allows any TVD above beta; a ceiling close to beta does not."""
    log_w = np.random.default_rng(0).normal(0.0, 8.0, size=300)
    log_beta, rise = log_w.max() + 0.1, 0.5
    known, unknown = (
        qr.tradeoff(qr.Draws.from_arrays(log_w, np.zeros(300), log_ceiling=ceiling)).at(
            log_beta=log_beta
        )
        for ceiling in (log_beta + rise, np.inf)
    )
    assert known.tvd.high == pytest.approx(1 - np.exp(-rise / 2))
    assert known.truncated_mass.high == pytest.approx(1 - np.exp(-rise))
    assert known.kl.high == pytest.approx(rise - 1 + np.exp(-rise))
    for name in ("tvd", "truncated_mass", "kl"):
        assert known.estimates[name].value == unknown.estimates[name].value
        assert known.estimates[name].value <= known.estimates[name].high
        assert known.estimates[name].high < unknown.estimates[name].high
