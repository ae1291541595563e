"""Fitted factors against the exact minimum of the distance, on models small enough to list."""

import numpy as np
import pytest
from scipy.optimize import minimize

import quasir as qr
from quasir.guides.automaton import BoostMachine
from quasir.guides.product import BothMachine
from quasir.text.guide_fit import Masses, _not_given, minimise_distance
from tests.guides.small import model, texts_of

MERGES = [("a", "b")]


def setting(seed=0):
    lm = model(("a", "b", "ab", " ", "c"), merges=MERGES, limit=4, seed=seed)
    feature = qr.features.contains("ab", case=True)
    return lm, feature, lm * feature


def named(q):
    return {
        name: float(np.exp(value))
        for name, value in zip(q.machine.names, q.machine.log_factors, strict=True)
    }


def distance(q, target):
    """Return Renyi's divergence of order 3 of p from q, by enumeration."""
    texts = texts_of(q.base)
    log_p = target.log_score(texts)
    some = log_p > -np.inf
    p = np.exp(log_p[some])
    p /= p.sum()
    return float(np.log(p @ np.exp(2 * (np.log(p) - q.log_prob(texts)[some]))) / 2)


def test_log_q_from_masses_is_log_q():
    """For a boost, and for a boost times a language, at factors that no pass was made with."""
    lm, feature, _ = setting()
    texts = texts_of(lm)
    for others in ([], [qr.guides.regex("(a|b|c)*")]):
        boost = qr.guides.boost({feature: 7.0, "c": 0.3})
        guide = boost
        for part in others:
            guide = part * guide
        q = lm.guided(guide)
        watched = BoostMachine(qr.guides.boost({feature: 2.0, "c": 2.0}), q.vocabulary, True)
        rest = BothMachine([part.compile(q.vocabulary) for part in others])
        masses = Masses.of(lm, texts, rest, True, watched)
        by_group = {"0 usual": 7.0, "1 usual": 0.3}
        names = [by_group.get(name[:7], 1.0) for name in watched.names]
        log_factors = np.array([np.log([names[i] for i in atom]).sum() for atom in watched.atoms])
        gain, log_q = masses.log_gain(log_factors), q.log_prob(texts)
        some = log_q > -np.inf
        np.testing.assert_array_equal(some, gain > -np.inf)
        np.testing.assert_allclose(gain[some], (log_q - lm.log_prob(texts))[some], atol=1e-4)


def test_the_gradient():
    lm, feature, _ = setting()
    q = lm.guided(qr.guides.boost({feature: 3.0, "c": 2.0}))
    machine = BoostMachine(q.guide, q.vocabulary, watched=True)
    masses = Masses.of(lm, texts_of(lm), BothMachine([]), True, machine)
    rng = np.random.default_rng(0)
    weight, x = rng.random(masses.texts), rng.normal(size=len(machine.atoms))
    slope = masses.log_gain_and_gradient(x)[1](weight)
    for j in range(len(x)):
        step = np.zeros(len(x))
        step[j] = 1e-5
        rise = weight @ (masses.log_gain(x + step) - masses.log_gain(x - step)) / 2e-5
        assert slope[j] == pytest.approx(rise, rel=1e-5, abs=1e-7)


def exact_fit(lm, q, target, share):
    """Return the fit on all texts, at their exact weights.

    Each text is there 20 times, so that the prior, which counts as one draw, is faint.
    """
    texts = texts_of(lm)
    log_p = target.log_score(texts)
    some = np.tile(np.flatnonzero(log_p > -np.inf), 20)
    part, log_weight = texts.take(some), log_p[some] - np.logaddexp.reduce(log_p[some])
    machine = BoostMachine(q.guide, q.vocabulary, watched=True)
    masses = Masses.of(lm, part, BothMachine([]), True, machine)
    log_b = log_p[some] - lm.log_prob(part)
    return minimise_distance(masses, log_b, log_weight, machine, share)


def test_the_fit_is_the_minimum():
    """On all texts at their exact weights, no factors are better (but for the faint prior)."""
    lm, feature, target = setting()
    q = lm.guided(qr.guides.boost({feature: 1.0}))
    fit = exact_fit(lm, q, target, 0.0)

    def at(x):
        factors = dict(zip(q.machine.names, np.exp(x).tolist(), strict=True))
        return distance(lm.guided(q.guide.with_factors(factors)), target)

    least = [0.0 if " rare " in name else np.log(0.05) for name in q.machine.names]
    best = minimize(
        at,
        fit.log_factors,
        method="Nelder-Mead",
        bounds=[(low, 5.0) for low in least],
        options={"maxiter": 200},
    )
    assert at(fit.log_factors) <= best.fun + 5e-3
    assert at(fit.log_factors) < at(np.zeros(len(q.machine.names))) - 0.3


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_a_pilot_comes_close(share):
    lm, feature, target = setting()
    q = lm.guided(qr.guides.boost(feature), share).fit(target, n=2000, seed=0, progress=False)
    assert (q.share == 0) == (share == 0)
    best = lm.guided(qr.guides.boost({feature: 1.0}))
    exact = exact_fit(lm, best, target, q.share)
    factors = dict(zip(best.machine.names, np.exp(exact.log_factors).tolist(), strict=True))
    best = lm.guided(best.guide.with_factors(factors), q.share)
    assert distance(q, target) == pytest.approx(distance(best, target), abs=0.03)
    assert distance(q, target) < distance(
        lm.guided(qr.guides.boost({feature: 10.0}), share), target
    )
    again = lm.guided(qr.guides.boost(feature), share).fit(target, n=2000, seed=0, progress=False)
    assert again.guide == q.guide
    assert again.share == q.share
    other = lm.guided(qr.guides.boost(feature), share).fit(target, n=2000, seed=1, progress=False)
    assert other.guide != q.guide


def test_a_fit_with_a_language():
    lm, feature, target = setting()
    language = qr.guides.regex("(a|b|c)*")
    target = target * language.feature
    q = lm.guided(language * qr.guides.boost(feature), 0.2)
    q = q.fit(target, n=1000, seed=0, progress=False)
    assert distance(q, target) < distance(
        lm.guided(language * qr.guides.boost({feature: 1.0}), 0.2), target
    )
    assert language in q.guide.parts


def test_given_factors_are_not_raised_where_few_draws_are_possible():
    """A word that stands beside the constraint keeps its factor; only the wanted words are tried
    more.
    """
    lm, feature, _ = setting()
    for factors, raised in (([None, 0.5], [True, False]), ([2.0, 0.5], [True, True])):
        boost = qr.guides.boost(dict(zip([feature, "c"], factors, strict=True)))
        begun = qr.guides.boost({feature: 1.0, "c": 0.5})
        machine = BoostMachine(begun, lm.guided(begun).vocabulary, watched=True)
        found = _not_given(boost, machine)
        groups = [int(name.split(" ", 1)[0]) for name in machine.names]
        assert found.tolist() == [raised[group] for group in groups]
        assert set(groups) == {0, 1}


def test_what_cannot_be_fitted_is_said():
    lm, feature, target = setting()
    with pytest.raises(qr.errors.InputError, match="no factors to fit"):
        lm.guided(qr.guides.regex("a*")).fit(target, n=200, seed=0)
    with pytest.raises(qr.errors.InputError, match="this very base"):
        lm.guided(qr.guides.boost(feature)).fit(setting()[2], n=200, seed=0)
    never = lm * qr.Feature("never", lambda x: False)
    with pytest.raises(qr.errors.TuningError, match="none of the pilot's"):
        lm.guided(qr.guides.boost(feature)).fit(never, n=100, seed=0, progress=False)
    with pytest.raises(qr.errors.InputError, match="no factor for"):
        lm.guided(qr.guides.boost(feature)).sample(1, np.random.default_rng(0))


def test_fitted_factors_are_a_value(tmp_path):
    lm, feature, target = setting()
    q = lm.guided(qr.guides.boost(feature), 0.2).fit(target, n=500, seed=0, progress=False)
    q.guide.save(tmp_path / "guide.json")
    read = qr.guides.load(tmp_path / "guide.json")
    assert read == q.guide
    assert read.fingerprint == q.guide.fingerprint
    np.testing.assert_array_equal(
        lm.guided(read, q.share).log_prob(texts_of(lm)), q.log_prob(texts_of(lm))
    )
    other = model(("a", "b", "c"), limit=2)
    read = read.with_factors({"0 usual begin ab": 2.0})
    with pytest.raises(qr.errors.InputError, match="other tokens"):
        other.guided(read)
