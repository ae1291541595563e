"""Guarantees on certificates and curves, and the guaranteed choice."""

import json
import math

import numpy as np
import pytest
from scipy import stats

import quasir as qr
from quasir.draws.ceiling import RatioBounds

ITEMS = list(range(400))
WEIGHTS = np.random.default_rng(5).dirichlet(np.full(400, 0.5))
BASE = qr.Table(dict(zip(ITEMS, WEIGHTS, strict=True)))
EVEN = qr.Feature("even", lambda x: x % 2 == 0, boolean=True)
SIZE = qr.Feature("size", lambda x: x / 100, low=0, high=4)
TARGET = BASE * qr.tilt(EVEN, 1.0) * qr.tilt(SIZE, 0.7)
DRAWS = qr.draw(TARGET, BASE, 20_000, seed=0)
CURVE = qr.tradeoff(DRAWS)


def exact_tvd(log_beta):
    q, p = np.exp(BASE.log_prob(ITEMS)), np.exp(TARGET.log_score(ITEMS))
    p_beta = np.minimum(p, math.exp(log_beta) * q)
    return 0.5 * np.abs(p / p.sum() - p_beta / p_beta.sum()).sum()


def test_a_certificate_has_its_guarantee():
    cert = CURVE.at(beta=25)
    guarantee = cert.guarantee
    assert cert.tvd.value < guarantee.tvd < cert.tvd.value + 0.05
    assert exact_tvd(math.log(25)) <= guarantee.tvd <= guarantee.truncated_mass
    assert guarantee.confidence == 0.95
    assert guarantee.basis.startswith("No ratio exceeds 44.7: the proposal is the base")
    for name, feature in (("even", EVEN), ("size", SIZE)):
        low, high = guarantee.moments[name]
        assert low < cert.moments[name].value < high
        assert low >= feature.bounds[0]
    low, high = guarantee.acceptance_rate
    assert low < cert.acceptance_rate.value < high
    assert CURVE.at(beta=25, confidence=0.999).guarantee.tvd > guarantee.tvd
    written = json.loads(json.dumps(cert.to_dict()))["guarantee"]
    assert written["tvd"] == guarantee.tvd
    assert "guaranteed, 0.95    TVD at most" in str(cert)
    assert "guaranteed" in cert._repr_html_()
    assert max(map(len, str(cert).splitlines())) <= 80


def test_a_curve_has_the_same_guarantees():
    curve = qr.tradeoff(DRAWS, betas=[3.0, 25.0])
    assert len(list(curve.guarantees)) == 2
    with pytest.raises(qr.errors.InputError, match="for one beta"):
        CURVE.at(beta=25).guarantee[0]
    assert curve.guarantees[1] == CURVE.at(beta=25).guarantee
    assert [one.guarantee for one in curve] == list(curve.guarantees)
    assert curve.columns()["tvd_guaranteed"].tolist() == curve.guarantees.tvd.tolist()
    assert (curve.guaranteed(0.99).tvd > curve.guarantees.tvd).all()
    assert curve.proposal.guarantee is None
    for wrong in (0, 1, 2, math.nan, "a", None):
        with pytest.raises(qr.errors.InputError):
            curve.guaranteed(wrong)


def test_the_choice_is_guaranteed():
    for name, constraint in (("tvd", 0.05), ("kl", 0.02)):
        cert = CURVE.at(**{name: constraint}, confidence=0.95)
        assert getattr(cert.guarantee, name) <= constraint
        assert "chose this beta" not in cert.guarantee.basis
        assert cert.cost is None
        cheaper = CURVE.at(**{name: constraint})
        assert cheaper.log_beta < cert.log_beta
        assert "The draws chose this beta" in cheaper.guarantee.basis
    assert exact_tvd(CURVE.at(tvd=0.05, confidence=0.95).log_beta) <= 0.05
    for wrong in ({"tvd_bound": 0.1}, {"tvd": 0.1, "beta": 1.0}):
        with pytest.raises(qr.errors.InputError):
            CURVE.at(**wrong, confidence=0.95)
    for confidence in (0, 1, -1, math.nan, "a", True):
        with pytest.raises(qr.errors.InputError):
            CURVE.at(tvd=0.1, confidence=confidence)


def test_exactness_that_costs_nothing_is_taken():
    """Filtering the base: every draw has the ratio 0 or the largest one."""
    draws = qr.draw(BASE * EVEN, BASE, 2000, seed=0)
    cert = qr.tradeoff(draws).at(tvd=0.2, confidence=0.95)
    assert (cert.beta, cert.guarantee.tvd) == (1, 0)
    assert cert.acceptance_rate.value == pytest.approx(np.mean(draws.log_p > -np.inf), rel=1e-12)
    tilted = qr.draw(BASE * qr.tilt(EVEN, 1.0), BASE, 2000, seed=0)
    assert qr.tradeoff(tilted).at(tvd=0.2, confidence=0.95).guarantee.tvd == 0.2


def test_without_a_ceiling_it_cannot_be_guaranteed_and_says_what_would_help():
    bare = qr.Feature("bare", EVEN.function)
    curve = qr.tradeoff(qr.draw(BASE * qr.tilt(bare, 1.0), BASE, 5000, seed=0))
    guarantee = curve.at(beta=2).guarantee
    assert (guarantee.tvd, guarantee.truncated_mass, guarantee.kl) == (None, None, None)
    assert "feature 'bare' declares no bounds" in guarantee.basis
    assert guarantee.acceptance_rate[0] > 0
    with pytest.raises(qr.errors.UnreachableError, match="declares no bounds"):
        curve.at(tvd=0.1, confidence=0.95)
    assert curve.at(tvd=0.1).guarantee.tvd is None
    other = qr.Table(dict.fromkeys(ITEMS, 1.0))
    number = qr.Feature("number", lambda x: x / 100)
    far = qr.tradeoff(qr.draw(BASE * qr.tilt(number, 1.0), other, 5000, seed=0))
    assert "mix it in with qr.Mixture" in far.at(beta=2).guarantee.basis


def test_z_that_is_known_stands_in_for_a_ceiling():
    target, proposal = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))
    curve = qr.tradeoff(qr.draw(target, proposal, 20_000, seed=0))
    cert = curve.at(tvd=0.05, confidence=0.95)
    x = np.arange(200)
    p, q = np.exp(target.log_prob(x)), np.exp(proposal.log_prob(x))
    p_beta = np.minimum(p, cert.beta * q)
    assert 0.5 * np.abs(p - p_beta / p_beta.sum()).sum() <= 0.05
    assert "Z is known to be 1" in cert.guarantee.basis
    assert cert.guarantee.kl is None
    with pytest.raises(qr.errors.UnreachableError, match="KL needs a ceiling"):
        curve.at(kl=0.05, confidence=0.95)
    with pytest.raises(qr.errors.UnreachableError, match="the best is"):
        curve.at(tvd=1e-4, confidence=0.95)


def test_draws_of_the_base_bound_z_where_the_proposal_lacks_it():
    other = qr.Table(dict.fromkeys(ITEMS, 1.0))
    curve = qr.tradeoff(qr.draw(TARGET, other, 20_000, seed=0))
    guarantee = curve.at(beta=200).guarantee
    assert "draws of the base, which bound Z" in guarantee.basis
    assert 0 < guarantee.tvd < 0.5


def test_a_ceiling_that_the_user_gives_is_named_as_such():
    top = float(DRAWS.log_ratio.max())
    made = {"log_p": DRAWS.log_p, "log_q": DRAWS.log_q}
    given = qr.Draws.from_arrays(
        **made, log_ceiling=top + 0.1, features={"even": DRAWS.features["even"]}
    )
    guarantee = qr.tradeoff(given).at(beta=25).guarantee
    assert "which the user gave" in guarantee.basis
    assert guarantee.tvd < 0.2
    assert set(guarantee.moments) == {"even"}
    assert qr.tradeoff(qr.Draws.from_arrays(**made)).at(beta=25).guarantee.tvd is None
    for wrong in (top - 0.1, math.nan, "a", True):
        with pytest.raises(qr.errors.InputError):
            qr.Draws.from_arrays(**made, log_ceiling=wrong)


def test_nothing_is_certain_because_all_draws_agree():
    """The issue's case: a rare item of ratio 1,000, which 5,000 draws mostly miss."""
    base = qr.Table({"often": 1 - 1e-4, "rare": 1e-4})
    rare = qr.Feature("rare", lambda x: x == "rare", boolean=True)
    three = qr.Feature("three", lambda x: 3.0 if x == "often" else 4.0)
    target = (base * qr.tilt(rare, math.log(1000))).watch(three)
    draws = next(
        draws
        for seed in range(20)
        if not (draws := qr.draw(target, base, 5000, seed=seed)).features["rare"].any()
    )
    cert = qr.tradeoff(draws).at(beta=100)
    z = 1 - 1e-4 + 0.1
    assert 0 < (true := 0.1 / z - 0.01 / (1 - 1e-4 + 0.01)) <= cert.tvd.high
    assert true <= cert.guarantee.tvd
    assert math.log(z) <= cert.log_z.high
    assert "for certain" not in str(cert)
    assert str(cert.moments["three"]) == "3 on these draws"
    exact = qr.tradeoff(draws).at(tvd=0)
    assert str(exact.tvd) == "0, for certain"
    assert "for certain" not in str(exact.moments["three"])


@pytest.mark.parametrize("shift", [-800.0, 800.0])
def test_guarantees_do_not_change_when_p_and_beta_are_scaled(shift):
    moved = qr.Draws(
        log_p=DRAWS.log_p + shift,
        log_q=DRAWS.log_q,
        log_u=DRAWS.log_u,
        features=DRAWS.features,
        known=RatioBounds(log_ceiling=DRAWS.log_ceiling + shift, bounds=DRAWS.known.bounds),
    )
    curve, levels = qr.tradeoff(moved), [-3.0, 0.0, 2.0, DRAWS.log_ceiling - 0.01]
    for level in levels:
        one, two = CURVE.at(log_beta=level).guarantee, curve.at(log_beta=level + shift).guarantee
        for name in ("tvd", "truncated_mass", "kl"):
            assert getattr(two, name) == pytest.approx(getattr(one, name), rel=1e-6, abs=1e-9)
        assert two.acceptance_rate == pytest.approx(one.acceptance_rate, rel=1e-6)
        for name, ends in one.moments.items():
            assert two.moments[name] == pytest.approx(ends, rel=1e-6)
    one, two = (c.at(tvd=0.05, confidence=0.95).log_beta for c in (CURVE, curve))
    assert two - shift == pytest.approx(one, abs=1e-3)
    one, two = (c.at(tvd=0.05).cost[1] for c in (CURVE, curve))
    assert (two.low, two.high) == pytest.approx((one.low, one.high), rel=1e-4)


def test_a_store_guarantees_what_its_draws_do(tmp_path):
    DRAWS.save(tmp_path)
    for stream in (False, True):
        curve = qr.tradeoff(tmp_path, stream=stream)
        guarantee = curve.at(beta=25).guarantee
        assert guarantee.basis == CURVE.at(beta=25).guarantee.basis
        assert guarantee.tvd == pytest.approx(CURVE.at(beta=25).guarantee.tvd, rel=0.02)
        cert = curve.at(tvd=0.05, confidence=0.95)
        assert cert.guarantee.tvd <= 0.05
        assert cert.log_beta >= CURVE.at(tvd=0.05, confidence=0.95).log_beta - 1e-3


def test_draws_of_which_none_is_possible():
    never = BASE * qr.Feature("never", lambda x: False, boolean=True)
    curve = qr.tradeoff(qr.draw(never, BASE, 1000, seed=0))
    assert curve.at(beta=1).guarantee.acceptance_rate[1] < 0.02
    with pytest.raises(qr.errors.UnreachableError):
        curve.at(tvd=0.1, confidence=0.95)


def test_a_heavy_tail_with_a_ceiling_is_no_warning():
    log_w = stats.genpareto(0.9).ppf((np.arange(5000) + 0.5) / 5000)
    log_w = np.log(np.random.default_rng(0).permutation(log_w))
    made = {"log_p": log_w, "log_q": np.zeros(5000)}
    alone = qr.tradeoff(qr.Draws.from_arrays(**made))
    known = qr.tradeoff(qr.Draws.from_arrays(**made, log_ceiling=log_w.max()))
    assert any("Pareto k" in warning for warning in alone.warnings)
    assert any("Pareto k" in warning for warning in alone.at(beta=2).warnings)
    assert not any(
        "Pareto k" in warning for warning in (*known.warnings, *known.at(beta=2).warnings)
    )
