"""Guided models in draws: one pass, ceilings, warnings, processes."""

import math
import pickle

import numpy as np
import pytest

import quasir as qr
from quasir.draws.ceiling import ratio_bounds
from tests.guides.small import all_ids, model, next_law, texts_of
from tests.statistical.goodness import fits

ENDS = qr.Feature("ends", lambda x: x.text.endswith("b"), boolean=True)


def setting(pattern=r"a(b|ab)*", **options):
    lm = model(**options)
    guide = qr.guides.regex(pattern)
    return lm, guide, lm * guide.feature


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_draws_need_one_pass(share, monkeypatch):
    """The base is not asked again, and what the pass says is what the base would say."""
    lm, guide, target = setting()
    q = lm.guided(guide, share)
    wanted = qr.draw(target, q, 300, seed=0)
    np.testing.assert_allclose(wanted.log_base, lm.log_prob(wanted.items), atol=1e-4)
    monkeypatch.setattr(lm, "log_prob", lambda items: pytest.fail("a second pass"))
    again = qr.draw(target, q, 300, seed=0)
    np.testing.assert_array_equal(again.log_p, wanted.log_p)
    assert again.spared == 300


def test_another_base_is_asked():
    lm, guide, _ = setting()
    other = model(seed=1)
    draws = qr.draw(other * guide.feature, lm.guided(guide), 100, seed=0)
    some = draws.log_p > -np.inf
    np.testing.assert_allclose(draws.log_base[some], other.log_prob(draws.items)[some], atol=1e-4)


def most(target, q):
    """Return the largest log ratio over all texts that the target allows."""
    log_p = target.log_score(texts_of(q.base))
    some = log_p > -np.inf
    return (log_p[some] - q.log_prob(texts_of(q.base))[some]).max()


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_the_ceiling_of_a_mask(share):
    lm, guide, target = setting()
    q = lm.guided(guide, share)
    ceiling = ratio_bounds(target, q).log_ceiling
    assert most(target, q) <= ceiling + 1e-9
    # G_1 by hand: the mass of the tokens "a" and "ab".
    g = float(next_law(lm, ())[[1, 3]].sum())
    wanted = -math.log(share + (1 - share) / g)
    assert ceiling == pytest.approx(wanted, abs=1e-5)


def test_the_ceiling_of_a_share():
    lm, _, _ = setting(merges=[("a", "b")])
    feature = qr.features.contains("ab", case=True)
    target = lm * feature * qr.tilt(ENDS, 1.5)
    q = lm.guided(qr.guides.boost({feature: 50.0}), 0.25)
    ceiling = ratio_bounds(target, q).log_ceiling
    assert ceiling == pytest.approx(math.log(4) + 1.5, abs=1e-12)
    assert most(target, q) <= ceiling
    alone = lm.guided(qr.guides.boost({feature: 5.0}))
    assert ratio_bounds(target, alone).log_ceiling == math.inf


def test_a_mask_is_no_ceiling_of_a_target_that_it_cuts():
    """The target allows texts outside the language: q = 0 there, and the draws say so."""
    lm, guide, _ = setting()
    wide = lm * qr.Feature("has a", lambda x: "a" in x.text)
    q = lm.guided(guide)
    assert q.log_most_base_ratio(lm, wide) == math.inf
    assert not q.reaches(wide)
    draws = qr.draw(wide, q, 2100, seed=0)
    assert draws.log_ceiling == math.inf
    assert any("probability 0" in warning for warning in draws.warnings)
    assert any("q = 0" in warning for warning in draws.base_check.warnings(draws.log_ratio.max()))
    shared = qr.draw(wide, lm.guided(guide, 0.1), 2100, seed=0)
    assert shared.warnings == ()
    assert shared.log_ceiling == pytest.approx(math.log(10), abs=1e-12)


def test_a_target_inside_the_language_has_no_warning():
    lm, guide, target = setting()
    narrow = target * qr.Feature("short", lambda x: len(x.token_ids) < 3)
    for q in (lm.guided(guide), lm.guided(guide * qr.guides.boost({"ab": 3.0}))):
        draws = qr.draw(narrow, q, 2100, seed=0)
        assert draws.warnings == ()
        assert draws.base_check is None
    both = lm * (guide.feature & qr.Feature("short", lambda x: len(x.token_ids) < 3))
    assert lm.guided(guide).reaches(both)


def test_exact_samples_at_the_ceiling():
    lm, guide, target = setting()
    q = lm.guided(guide)
    p = np.exp(target.log_score(texts_of(lm)))
    sampler = qr.QRS(target, q, log_beta=q.log_most_base_ratio(lm, target))
    samples = sampler.sample(3000, seed=0)
    assert fits([item.token_ids for item in samples.items], all_ids(lm), p / p.sum())
    plain = q.sample(3000, np.random.default_rng(1)).items
    assert not fits(plain.tuples(), all_ids(lm), p / p.sum())


def test_a_guided_model_goes_to_other_processes():
    lm, guide, target = setting()
    q = lm.guided(guide * qr.guides.boost({"ab": 3.0}), 0.2)
    there, back = pickle.loads(pickle.dumps((target, q)))
    assert there.base is back.base
    a, b = qr.draw(target, q, 200, seed=0), qr.draw(there, back, 200, seed=0)
    np.testing.assert_array_equal(a.log_p, b.log_p)
    np.testing.assert_array_equal(a.items.ids, b.items.ids)
    by_two = qr.draw(target, q, 2500, seed=0, engine=qr.engines.Local(processes=2), progress=False)
    alone = qr.draw(target, q, 2500, seed=0)
    np.testing.assert_array_equal(alone.items.ids, by_two.items.ids)
    np.testing.assert_allclose(alone.log_q, by_two.log_q, atol=1e-5)


def test_the_feature_reads_tokens_strings_and_stored_texts(tmp_path):
    lm, guide, target = setting()
    feature = target.features[0]
    texts = lm.encode(["ab", "ba", ""])
    assert feature(texts).tolist() == [True, False, False]
    assert feature(["ab", "ba", ""]).tolist() == [True, False, False]
    assert feature(list(texts)).tolist() == [True, False, False]
    draws = qr.draw(target, lm.guided(guide, 0.5), 100, seed=0)
    draws.save(tmp_path / "run")
    stored = qr.Draws.load(tmp_path / "run")
    np.testing.assert_array_equal(feature(stored.items), draws.features[feature.name])
    other = model(("b", "a"))
    assert feature(other.encode(["ab", "a", "b"])).tolist() == [True, True, False]
    assert guide.feature(texts).tolist() == [True, False, False]
    with pytest.raises(qr.errors.FeatureError, match="no tokenizer"):
        guide.feature(["ab"])
    with pytest.raises(qr.errors.FeatureError, match="where texts are cut"):
        qr.guides.regex("a*", complete=False).feature(texts)


def test_a_feature_is_bound_wherever_it_stands_in_a_product():
    """Texts that were cut count as begun ones only if the feature knows where they are cut."""
    lm, *_ = setting()
    open_ended = qr.guides.regex("a[ab]*", complete=False)
    short = qr.Feature("any", lambda x: True, boolean=True)
    first, last = lm * open_ended.feature * short, lm * short * open_ended.feature
    texts = lm.sample(200, np.random.default_rng(0)).items
    np.testing.assert_array_equal(first.log_score(texts), last.log_score(texts))
    assert np.isfinite(last.log_score(texts)).any()


def test_a_product_of_the_same_language_twice_is_one_feature():
    _, guide, target = setting()
    twice = target * guide.feature
    assert len(twice.features) == 1


def test_reprs_and_hashes_are_stable():
    lm, guide, _ = setting()
    same, other = qr.guides.regex(r"a(b|ab)*"), qr.guides.regex(r"a(b|ab)*", complete=False)
    assert hash(same) == hash(guide)
    assert same == guide != other
    assert same.fingerprint == guide.fingerprint != other.fingerprint
    product = guide * qr.guides.boost({"ab": 3.0})
    assert repr(product) == "regex('a(b|ab)*') * boost({'ab': 3.0})"
    assert repr(lm.guided(product, 0.2)).endswith("boost({'ab': 3.0}), share=0.2)")
    assert product == pickle.loads(pickle.dumps(product))
    assert qr.guides.from_dict(product.to_dict()) == product
    joined = qr.guides.boost({"a": 2.0}) * guide * qr.guides.boost({"b": 3.0})
    assert joined == guide * qr.guides.boost({"a": 2.0, "b": 3.0})
