import math

import numpy as np
import pytest

import quasir as qr
from quasir.draws.draw_blocks import CHECKED

BASE = qr.Table({"a": 0.4, "b": 0.3, "ab": 0.2, "c": 0.1})
OTHER = qr.Table({"a": 0.25, "b": 0.25, "ab": 0.25, "c": 0.25})
HAS_A, HAS_B = qr.features.contains("a", name="A"), qr.features.contains("b", name="B")
ITEMS = ["a", "b", "ab", "c"]


class Counting:
    """A base that counts what it is asked."""

    def __init__(self):
        self.scored = 0
        self.batches = []

    def log_prob(self, items):
        self.scored += len(items)
        self.batches.append(len(items))
        return BASE.log_prob(items)

    def sample(self, n, rng):
        return BASE.sample(n, rng)


def test_products():
    assert np.exp((BASE * HAS_A).log_score(ITEMS)).tolist() == pytest.approx([0.4, 0, 0.2, 0])
    both = BASE * HAS_A * ~HAS_B
    assert np.exp(both.log_score(ITEMS)).tolist() == pytest.approx([0.4, 0, 0, 0])
    tilted = BASE * qr.tilt(HAS_A, math.log(2)) * qr.tilt(HAS_B, math.log(3))
    assert np.exp(tilted.log_score(ITEMS)).tolist() == pytest.approx([0.8, 0.9, 1.2, 0.1])
    rewarded = BASE * qr.reward(len, temperature=0.5)
    assert rewarded.log_score(["ab"]) == pytest.approx([math.log(0.2) + 4])
    assert repr(both).endswith("* [A] * [not B]")
    assert "exp(0.6931 A)" in repr(tilted)


def test_the_base_is_asked_only_what_is_still_possible():
    base = Counting()
    draws = qr.draw(base * HAS_A, OTHER, 4000, seed=0)
    possible = int(draws.features["A"].sum())
    assert base.scored == possible == 4000 - draws.spared
    assert np.isnan(draws.log_base[~draws.features["A"]]).all()
    assert (draws.log_p[~draws.features["A"]] == -np.inf).all()
    np.testing.assert_allclose(
        draws.log_base[draws.features["A"]], draws.log_p[draws.features["A"]]
    )


def test_batch_size_is_what_the_base_gets_at_once():
    base = Counting()
    qr.draw(base * HAS_A, OTHER, 2000, seed=0, batch_size=100)
    assert max(base.batches) == 100


def test_what_was_drawn_from_the_base_is_not_scored_again():
    base = Counting()
    draws = qr.draw(base * HAS_A, base, 3000, seed=0)
    assert base.scored == CHECKED  # only the first few, to see that log_prob agrees
    assert draws.spared == 3000
    np.testing.assert_array_equal(draws.log_base, draws.log_q)
    assert (draws.log_ratio[draws.features["A"]] == 0).all()


def test_a_mixture_that_the_base_is_part_of_asks_it_once_for_each_item():
    base = Counting()
    target = qr.Product(base) * HAS_A
    draws = qr.draw(target, qr.Mixture([OTHER, base], weights=[3, 1]), 4000, seed=0)
    assert draws.spared == 4000
    # Three in four come from the other one, and only those has the base to score.
    assert 2800 < base.scored < 3200
    np.testing.assert_allclose(draws.log_base, BASE.log_prob(draws.items))
    possible = HAS_A(draws.items)
    np.testing.assert_array_equal(draws.log_p > -np.inf, possible)
    np.testing.assert_allclose(draws.log_p[possible], draws.log_base[possible])
    # As a mixture of others that have the same law, whose base is asked by the target.
    apart = qr.draw(target, qr.Mixture([OTHER, BASE], weights=[3, 1]), 4000, seed=0)
    assert list(apart.items) == list(draws.items)
    np.testing.assert_allclose(apart.log_p, draws.log_p)
    np.testing.assert_array_equal(apart.log_q, draws.log_q)


def test_expensive_features_come_last_and_are_spared():
    asked = []
    dear = qr.Feature("dear", lambda x: asked.append(x) or len(x) > 1, expensive=True)
    target = BASE * dear * HAS_A
    scores = target.scores(ITEMS)
    assert sorted(asked) == ["a", "ab"]
    assert np.exp(scores.log_p).tolist() == pytest.approx([0, 0, 0.2, 0])
    assert np.isnan(scores.features["dear"]).tolist() == [False, True, False, True]
    curve = qr.tradeoff(qr.draw(target, OTHER, 2000, seed=0))
    assert curve.at(beta=1).moments["dear"].value == 1
    assert math.isnan(curve.proposal.moments["dear"].value)
    assert curve.proposal.moments["A"].value == pytest.approx(0.5, abs=0.05)


def test_certificates_carry_the_base_and_the_features_unasked():
    target = (BASE * HAS_A).watch(HAS_B)
    cert = qr.tradeoff(qr.draw(target, OTHER, 50_000, seed=0)).at(beta=10)
    assert cert.moments["A"].value == 1
    p = np.array([0.4, 0.2]) / 0.6
    part = cert.moments["B"]
    assert part.low <= p[1] <= part.high
    # KL(p, a) of a pointwise constraint is -log a(A).
    assert cert.kl_base.low <= -math.log(0.6) <= cert.kl_base.high
    assert cert.z.value == pytest.approx(0.6, abs=5 * cert.z.se)


def test_conditional_targets():
    target = qr.targets.Conditional(lambda letter: BASE * qr.features.contains(letter))
    certs = {}
    for letter in "ac":
        draws = qr.draw(target.given(letter), OTHER, 20_000, seed=0)
        certs[letter] = qr.tradeoff(draws).at(beta=5)
    assert certs["a"].z.value == pytest.approx(0.6, abs=0.02)
    assert certs["c"].z.value == pytest.approx(0.1, abs=0.02)
    with pytest.raises(qr.errors.InputError, match="needs a context"):
        qr.draw(target, OTHER, 10, seed=0)


def test_what_cannot_be_multiplied():
    with pytest.raises(qr.errors.InputError, match="cannot be a base"):
        object() * HAS_A
    with pytest.raises(qr.errors.FeatureError, match="where a boolean is needed"):
        (BASE * qr.features.length("characters")).log_score(ITEMS)
    with pytest.raises(qr.errors.InputError, match="two different features are called 'A'"):
        BASE * HAS_A * qr.features.contains("x", name="A")
    with pytest.raises(TypeError):
        BASE * HAS_A * 3
    with pytest.raises(qr.errors.InputError, match="is not a feature"):
        qr.tilt(len, 1.0)
    for wrong in (0, -1, math.nan):
        with pytest.raises(qr.errors.InputError, match="temperature"):
            qr.reward(len, wrong)
    with pytest.raises(qr.errors.InputError, match="pointwise"):
        qr.tilt(HAS_A, math.inf)
