"""The search: what it finds is exact, its draws stay out of estimates, and it says what it did."""

import json

import numpy as np
import pytest

import quasir as qr
from quasir.core.streams import DrawStreams
from quasir.text import search
from quasir.text.found import load_proposal, save_proposal
from quasir.text.search import propose
from tests.guides.small import drawn_ids, model, texts_of

AB = qr.features.contains("ab", case=True)
TWICE = qr.Feature("twice", lambda text: str(text).count("a") >= 2, boolean=True)
NEVER = qr.Feature("never", lambda text: False, boolean=True)


@pytest.fixture(scope="module")
def lm():
    return model(merges=[("a", "b")], limit=5, seed=3)


def kl(target, log_q):
    log_p = target.log_score(texts_of(target.base))
    some = log_p > -np.inf
    p = np.exp(log_p[some] - np.logaddexp.reduce(log_p[some]))
    return float(p @ (np.log(p) - log_q[some]))


@pytest.fixture(scope="module")
def hard(lm):
    """A rare constraint, with the words of one feature, and a black box."""
    return lm * AB * TWICE * qr.tilt(qr.Feature("long", lambda x: len(str(x)), high=12.0), 0.3)


@pytest.fixture(scope="module")
def found(hard, tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    return propose(hard, hard.base, budget=6_144, seed=5, progress=False, folder=folder), folder


def test_what_is_found_is_exact_and_closer(found, hard):
    """By enumeration: q sums to 1, log a is the base's, the ceiling holds, and KL is smaller."""
    (q, _), lm = found, hard.base
    log_a, log_q = q.log_prob_each(texts_of(lm))
    assert np.exp(log_q).sum() == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(log_a, lm.log_prob(texts_of(lm)), atol=1e-4)
    draws = qr.draw(hard, q, 500, seed=0)
    log_p = hard.log_score(texts_of(lm))
    assert (log_p - log_q).max() <= draws.known.log_ceiling + 1e-6
    assert kl(hard, log_q) < 0.6 * kl(hard, log_a)


def test_the_record_says_what_each_would_cost(found):
    record = found[0].record
    costs = {one.name: one.seconds_per_sample for one in record.tried}
    assert {"base", "base and boosts", "base and head", "mixture"} <= costs.keys()
    assert record.chosen == min(costs, key=costs.get)
    assert costs["mixture"] <= min(costs.values())
    assert "chosen" in str(record)
    assert json.loads(json.dumps(record.to_dict()))["draws"] == record.draws


def test_a_killed_search_goes_on(found, hard, monkeypatch):
    """The stages that were drawn are read, and the proposal is the same to the bit."""
    q, folder = found
    kept = sorted(folder.glob("stage-*.npz"), key=lambda f: int(f.stem.split("-")[1]))
    for file in kept[-2:]:
        file.unlink()
    made, inner = [], search.draw
    monkeypatch.setattr(search, "draw", lambda *a, **k: made.append(1) or inner(*a, **k))
    again = propose(hard, hard.base, budget=6_144, seed=5, progress=False, folder=folder)
    assert len(made) == 2
    heads = [[p.head.fingerprint for p in one.parts if p.head is not None] for one in (q, again)]
    assert heads[0] == heads[1]
    assert heads[0]


def test_the_file_keeps_all_of_it(found, hard, tmp_path):
    q, lm = found[0], hard.base
    save_proposal(q, tmp_path / "q.safetensors")
    features = {feature.name: feature for feature in hard.features}
    again = load_proposal(tmp_path / "q.safetensors", lm, features)
    np.testing.assert_array_equal(again.log_prob(texts_of(lm)), q.log_prob(texts_of(lm)))
    assert again.record == q.record
    with pytest.raises(qr.errors.InputError, match="another model"):
        load_proposal(tmp_path / "q.safetensors", model(merges=[("a", "b")], seed=4), features)
    with pytest.raises(qr.errors.InputError, match="reads the features"):
        load_proposal(tmp_path / "q.safetensors", lm, {})
    (tmp_path / "bad").write_text("nonsense")
    with pytest.raises(qr.errors.StoreError, match="cannot be read"):
        load_proposal(tmp_path / "bad", lm, features)


def leaks(target, monkeypatch):
    """Return whether a search and the run with the same seed share a random number."""
    seeds, inner = [], search.draw

    def spied(target, q, n, streams, **how):
        seeds.append(streams)
        return inner(target, q, n, streams, **how)

    monkeypatch.setattr(search, "draw", spied)
    propose(target, target.base, budget=2_048, seed=7, progress=False)
    own = DrawStreams.of(7).propose(0).random(64)
    used = [DrawStreams.of(seed).propose(0).random(64) for seed in seeds]
    assert len(used) == len({tuple(numbers) for numbers in used})
    return any(np.isin(own, numbers).any() for numbers in used)


def test_search_draws_never_enter_the_estimate(lm, monkeypatch):
    assert not leaks(lm * AB, monkeypatch)


def test_a_leak_would_be_seen(lm, monkeypatch):
    inner = search.derived_seed
    monkeypatch.setattr(search, "derived_seed", lambda s, p, i: s if i == 1 else inner(s, p, i))
    assert leaks(lm * AB, monkeypatch)


def test_a_hopeless_base_has_an_honest_end(lm):
    with pytest.raises(qr.errors.TuningError, match=r"none of the .* draws .*tuned towards"):
        propose(lm * NEVER, lm, budget=2_048, seed=0, progress=False)


def test_an_easy_target_keeps_the_base(lm):
    q = propose(lm * qr.tilt(TWICE, 0.1), lm, budget=2_048, seed=0, progress=False)
    assert q.record.chosen == "base"
    assert q.share == 1.0
    np.testing.assert_allclose(q.log_prob(texts_of(lm)), lm.log_prob(texts_of(lm)), atol=1e-4)
    items, log_q, log_a = q.sample_scored(20, np.random.default_rng(0))
    assert drawn_ids(items) == drawn_ids(lm.sample(20, np.random.default_rng(0)).items) or len(
        items
    )
    np.testing.assert_array_equal(log_q, log_a)


def test_a_target_with_a_language_is_masked(lm):
    guide = qr.guides.regex("(ab| a)+")
    target = lm * guide.feature * TWICE
    q = propose(target, lm, budget=2_048, seed=0, progress=False)
    log_q = q.log_prob(texts_of(lm))
    assert np.exp(log_q).sum() == pytest.approx(1, abs=1e-5)
    assert kl(target, log_q) < kl(target, lm.log_prob(texts_of(lm))) - 2


def test_other_targets_are_refused(lm):
    other = model(seed=9)
    with pytest.raises(qr.errors.InputError, match="this very base"):
        propose(lm * AB, other)
    with pytest.raises(qr.errors.InputError, match="budget"):
        propose(lm * AB, lm, budget=100)
