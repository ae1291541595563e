"""The frozen trie, by enumeration: its bound holds, telescopes, and never counts twice."""

import json
import math
import pickle

import numpy as np
import pytest

import quasir as qr
from quasir.core.types import Request
from quasir.guides.trie import Trie, TrieBuilder
from quasir.text.guided import Guided
from tests.guides import small
from tests.guides.small import all_ids, bytes_of, model, strings_of, texts_of
from tests.statistical.goodness import fits

PATTERN = r"(ab)*b"


def setting(limit=5, seed=0, **options):
    lm = model(("a", "b", "ab"), limit=limit, seed=seed, **options)
    guide = qr.guides.regex(PATTERN)
    return lm, guide, lm * guide.feature


def exact(lm, target):
    """Return p of every text, and Z."""
    p = np.exp(target.log_score(texts_of(lm)))
    return p / p.sum(), p.sum()


def check(q, target, n=3000):
    """Sum to 1, drawn as scored, a ceiling that holds for every text, and log a alongside."""
    texts = texts_of(q.base)
    law, log_p = np.exp(q.log_prob(texts)), target.log_score(texts)
    some, ceiling = log_p > -np.inf, q.log_most_base_ratio(q.base, target)
    assert (law[some] > 0).all()
    assert (log_p[some] - np.log(law[some])).max() <= ceiling + 1e-9
    small.check(q, law, n)
    return math.exp(ceiling)


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("n", [3, 30, 300])
def test_the_law_and_the_ceiling(n, share):
    lm, guide, target = setting()
    q = lm.guided(guide, share)
    q2 = q.learn(qr.draw(target, q, n, seed=0))
    assert check(q2, target) < check(q, target) + 1e-9


def test_rounds_reach_the_target_itself():
    """c(root) falls to Z, and q becomes p."""
    lm, guide, target = setting()
    p, z = exact(lm, target)
    q, acceptance, tvd = lm.guided(guide), [], []
    for number, n in enumerate((0, 4, 20, 100, 800)):
        if n:
            q = q.learn(qr.draw(target, q, n, seed=number))
        acceptance.append(z / math.exp(q.log_most_base_ratio(lm, target)))
        tvd.append(np.abs(np.exp(q.log_prob(texts_of(lm))) - p).sum() / 2)
    assert acceptance == sorted(acceptance)
    assert acceptance[0] < 0.6 < 0.99 < acceptance[-1]
    assert tvd[-1] < 0.02
    trie = next(part for part in q.guide.parts if isinstance(part, Trie))
    root = math.exp(q.log_most_base_ratio(lm, target))
    assert root <= trie.bound[0] <= root + 1e-5  # the slack of rounding


@pytest.mark.parametrize("complete", [True, False])
def test_a_cut_text_counts_if_it_may(complete):
    lm = model(("a", "b", "ab"), limit=3)
    guide = qr.guides.regex(r"(ab)*b{4}", complete=complete)
    target = lm * guide.feature
    strings = strings_of(r"(ab)*b{4}", "ab")
    prefixes = {s[:i] for s in strings for i in range(len(s) + 1)}
    inside = [
        bytes_of(lm, ids) in strings
        or (not complete and len(ids) == 3 and bytes_of(lm, ids) in prefixes)
        for ids in all_ids(lm)
    ]
    np.testing.assert_array_equal(target.features[0](texts_of(lm)), inside)
    if complete:
        assert not any(inside)  # four tokens are needed
        return
    q = lm.guided(guide)
    check(q, target)
    check(q.learn(qr.draw(target, q, 50, seed=0)), target)


def test_the_same_draws_teach_nothing_new():
    lm, guide, target = setting()
    q = lm.guided(guide)
    draws = qr.draw(target, q, 60, seed=0)
    once = q.learn(draws)
    assert once.learn(draws).guide == once.guide
    assert q.learn(draws.items).guide == once.guide
    twice = q.learn(draws.take(np.arange(30))).learn(draws)
    check(twice, target)
    assert twice.log_most_base_ratio(lm, target) == pytest.approx(
        once.log_most_base_ratio(lm, target), abs=1e-4
    )


def test_a_trie_that_is_updated_twice_fails(monkeypatch):
    """What is known is taken off twice: the bound is then below what the language keeps."""
    inner = Trie.bound.func

    def wrong(self):
        doubled = Trie(self.parent, self.token, self.probability * 2, self.mass, self.cut)
        return inner(doubled)

    lm, guide, target = setting()
    q = lm.guided(guide)
    draws = qr.draw(target, q, 200, seed=0)
    monkeypatch.setattr(Trie, "bound", property(wrong))
    with pytest.raises(AssertionError):
        check(q.learn(draws), target)


def test_a_trie_is_a_value(tmp_path):
    lm, guide, target = setting()
    q = lm.guided(guide)
    learnt = q.learn(qr.draw(target, q, 30, seed=0))
    learnt.guide.save(tmp_path / "guide.json")
    read = qr.guides.load(tmp_path / "guide.json")
    assert read == learnt.guide == pickle.loads(pickle.dumps(learnt.guide))
    assert read.fingerprint == learnt.guide.fingerprint != guide.fingerprint
    np.testing.assert_array_equal(
        lm.guided(read).log_prob(texts_of(lm)), learnt.log_prob(texts_of(lm))
    )
    assert json.loads((tmp_path / "guide.json").read_text())["guide"] == "product"


def test_a_known_prefix_is_kept():
    builder = TrieBuilder()
    root = builder.visit(-1, -1, 1.0, 0.5, cut=False)
    child = builder.visit(root, 3, 0.25, 0.0, cut=True)
    assert builder.visit(root, 3, 0.25, 0.0, cut=True) == child
    assert builder.freeze().bound[0] == pytest.approx(0.25, rel=1e-4)
    again = TrieBuilder(builder.freeze())
    assert again.visit(-1, -1, 1.0, 0.5, cut=False) == root
    assert len(again.freeze()) == 2


def test_the_same_seed_gives_new_draws(monkeypatch):
    """What taught a trie does not come again: and a trie gives one stream."""
    lm, guide, target = setting(limit=4)
    q = lm.guided(guide, 0.3)
    taught = qr.draw(target, q, 300, seed=0)
    learnt = q.learn(taught)
    same, other = (qr.draw(target, learnt, 300, seed=seed) for seed in (0, 1))
    assert abs(fraction_shared(taught, same) - fraction_shared(taught, other)) < 0.1
    again = q.learn(taught)
    np.testing.assert_array_equal(qr.draw(target, again, 300, seed=0).items.ids, same.items.ids)
    # A block may be drawn in parts, and beside other prompts.
    requests = [Request(np.random.default_rng(3), start, start + 20) for start in (0, 20)]
    parts = learnt.sample_together([learnt, learnt], requests)
    whole = learnt.sample(40, np.random.default_rng(3)).items.tuples()
    assert parts[0].items.tuples() + parts[1].items.tuples() == whole
    monkeypatch.setattr(Guided, "_stream", lambda self, rng: rng)
    old = qr.draw(target, learnt, 300, seed=0)  # the control: the same uniforms again
    assert fraction_shared(taught, old) > fraction_shared(taught, other) + 0.3


def fraction_shared(a, b):
    """Return how many draws have the same text at the same place."""
    return np.mean([x == y for x, y in zip(a.items.tuples(), b.items.tuples(), strict=True)])


def test_nothing_to_learn_is_said():
    lm, guide, target = setting()
    with pytest.raises(qr.errors.InputError, match="has no language"):
        lm.guided(qr.guides.boost({"ab": 2.0})).learn(lm.encode(["ab"]))
    draws = qr.draw(target, lm.guided(guide), 20, seed=0)
    bare = qr.Draws.from_arrays(log_p=draws.log_p, log_q=draws.log_q)
    with pytest.raises(qr.errors.InputError, match="no items"):
        lm.guided(guide).learn(bare)


def test_p_is_reached_at_the_ceiling():
    lm, guide, target = setting()
    q = lm.guided(guide)
    q = q.learn(qr.draw(target, q, 40, seed=3))
    p, _ = exact(lm, target)
    sampler = qr.QRS(target, q, log_beta=q.log_most_base_ratio(lm, target))
    samples = sampler.sample(3000, seed=1)
    assert fits([item.token_ids for item in samples.items], all_ids(lm), p)
