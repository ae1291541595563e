"""The search: what it finds is exact, its draws stay out of estimates, and it says what it did."""

import json
import re

import numpy as np
import pytest

import quasir as qr
from quasir.core.items import take
from quasir.core.streams import DrawStreams
from quasir.guides.automaton import State
from quasir.guides.product import BothMachine
from quasir.text import stages
from quasir.text.found import read_proposal, save_proposal
from quasir.text.guided import Part, mix_parts
from quasir.text.head import Head
from quasir.text.head_fit import Pool, train_head
from quasir.text.search import Search, propose, read_budget
from quasir.text.stages import Place
from quasir.text.weighing import Request, Scored, check_choice, find_rate
from tests.guides.small import model, texts_of

AB = qr.features.contains("ab", case=True)
TWICE = qr.Feature("twice", lambda text: str(text).count("a") >= 2, boolean=True)
NOT_B = qr.Feature("not b", lambda text: "b" not in str(text), boolean=True)
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


def test_a_head_lowers_the_second_moment_of_the_ratios(hard):
    """By enumeration: E_p[p/q] falls, where q is the base with a share, and the head."""
    lm, texts = hard.base, texts_of(hard.base)
    log_p = hard.log_score(texts)
    at = np.flatnonzero(log_p > -np.inf)
    log_p = log_p[at] - np.logaddexp.reduce(log_p[at])
    some, log_a = texts.take(at), lm.log_prob(texts)
    state = State([], mix_parts(lm, []).vocabulary)
    pool = Pool.of(lm, some, state, BothMachine([]), (log_p, log_p, log_a[at]))
    times = -(-3_000 // len(at))
    many = Pool.join([pool] * times, np.tile(log_p, times), np.tile(log_p, times))

    def moment(head):
        q = mix_parts(lm, [Part(0.7, None, head)])
        log_q = q.log_prob(texts)
        assert np.exp(log_q).sum() == pytest.approx(1, abs=1e-5)
        return float(np.exp(log_p) @ np.exp(log_p - log_q[at]))

    zero = Head.zero(many.states.shape[1], 0, 8, 0, None)
    head = train_head(lm, many, None, seed=0, number=0)
    assert moment(head) < 0.5 * moment(zero)


def test_the_record_says_what_each_would_cost(found):
    record = found[0].record
    costs = {one.name: one.seconds_per_sample for one in record.tried}
    assert {"base", "base and boosts", "base and head", "mixture"} <= costs.keys()
    assert record.chosen == min(costs, key=costs.get)
    assert costs["mixture"] <= min(costs.values())
    assert "chosen" in str(record)
    assert re.search(
        r"judged on the other, a proposal is accepted at 0\.\d+ and 0\.\d+", str(record)
    )
    assert record.draws <= 6_144
    assert json.loads(json.dumps(record.to_dict()))["draws"] == record.draws


def test_the_estimate_chooses_where_a_run_could_guarantee_nothing(found, hard):
    """20 draws guarantee no TVD of 0.1; a base that is nearly alone would be the cheapest then."""
    q = propose(hard, hard.base, 6_144, 5, False, folder=found[1], draws=20)
    assert found[0].record.confidence == 0.95
    assert q.record.confidence is None
    assert "20 draws would guarantee a TVD of 0.1 for fewer than 10 samples" in str(q.record)
    assert q.record.best.acceptance > 5 * q.record.tried[0].acceptance


def test_a_ceiling_meets_every_request():
    """The estimate meets no TVD of 0.2 on these draws; at the ceiling nothing is truncated."""
    log_ratio, request = np.linspace(-17.0, -8.0, 55), Request(0.2, None, 512)
    assert find_rate(log_ratio, 448, np.inf, request) == 0.0
    assert find_rate(log_ratio, 448, 0.0, request) == pytest.approx(np.exp(log_ratio).sum() / 448)


def test_no_half_judges_what_it_has_chosen(monkeypatch):
    """The draws of one half have log P = 0, and those of the other log P = 1."""
    log_p, ones = np.arange(400) % 2.0, np.ones(2)
    scored = Scored(400, log_p, 0 * log_p, np.zeros((2, 400)), np.zeros(1), ones[None], ones, 1.0)
    chosen, judged, inner = [], [], Scored.judge

    def judge(self, name, *given):
        (chosen if name else judged).append(set(self.log_p))
        return inner(self, name, *given)

    monkeypatch.setattr(Scored, "judge", judge)
    check_choice(scored, ["base", "one"], Request(0.1, None, 400))
    assert judged == [{0.0}, {1.0}]
    half = len(chosen) // 2
    assert chosen[:half] == [{1.0}] * half
    assert chosen[half:] == [{0.0}] * half


def test_a_killed_search_goes_on(found, hard, monkeypatch):
    """The stages that were drawn are read, and the proposal is the same to the bit."""
    q, folder = found
    kept = sorted(folder.glob("stage-*-0.npz"), key=lambda f: int(f.stem.split("-")[1]))
    for file in kept[-2:]:
        file.unlink()
    made, inner = [], stages.draw
    monkeypatch.setattr(stages, "draw", lambda *a, **k: made.append(1) or inner(*a, **k))
    again = propose(hard, hard.base, budget=6_144, seed=5, progress=False, folder=folder)
    assert len(made) == 2
    heads = [[p.head.fingerprint for p in one.parts if p.head is not None] for one in (q, again)]
    assert heads[0] == heads[1]
    assert heads[0]


def test_the_file_keeps_all_of_it(found, hard, tmp_path):
    q, lm = found[0], hard.base
    save_proposal(q, tmp_path / "q.safetensors")
    features = {feature.name: feature for feature in hard.features}
    again = read_proposal(tmp_path / "q.safetensors").placed(lm, features)
    np.testing.assert_array_equal(again.log_prob(texts_of(lm)), q.log_prob(texts_of(lm)))
    assert again.record == q.record
    other = model(merges=[("a", "b")], seed=4)
    with pytest.raises(qr.errors.InputError, match="another model"):
        read_proposal(tmp_path / "q.safetensors").placed(other, features)
    with pytest.raises(qr.errors.InputError, match="reads the features"):
        read_proposal(tmp_path / "q.safetensors").placed(lm, {})
    (tmp_path / "bad").write_text("nonsense")
    with pytest.raises(qr.errors.StoreError, match="cannot be read"):
        read_proposal(tmp_path / "bad")


def leaks(target, monkeypatch):
    """Return whether a search and the run with the same seed share a random number."""
    seeds, inner = [], stages.draw

    def spied(target, q, n, streams, **how):
        seeds.append(streams)
        return inner(target, q, n, streams, **how)

    monkeypatch.setattr(stages, "draw", spied)
    propose(target, target.base, budget=2_048, seed=7, progress=False)
    own = DrawStreams.of(7).propose(0).random(64)
    used = [DrawStreams.of(seed).propose(0).random(64) for seed in seeds]
    assert len(used) == len({tuple(numbers) for numbers in used})
    return any(np.isin(own, numbers).any() for numbers in used)


def test_search_draws_never_enter_the_estimate(lm, monkeypatch):
    assert not leaks(lm * AB, monkeypatch)


def test_a_leak_would_be_seen(lm, monkeypatch):
    inner = stages.derived_seed
    monkeypatch.setattr(
        stages, "derived_seed", lambda s, p, i, j: s if i == 1 else inner(s, p, i, j)
    )
    assert leaks(lm * AB, monkeypatch)


def test_a_hopeless_base_has_an_honest_end(lm):
    with pytest.raises(qr.errors.TuningError, match=r"none of the .* draws .*tuned towards"):
        propose(lm * NEVER, lm, budget=2_048, seed=0, progress=False)


def test_an_easy_target_keeps_the_base(lm):
    q = propose(lm * qr.tilt(TWICE, 0.1), lm, budget=2_048, seed=0, progress=False)
    assert q.record.chosen == "base"
    assert q.share == 1.0
    np.testing.assert_allclose(q.log_prob(texts_of(lm)), lm.log_prob(texts_of(lm)), atol=1e-4)
    _, log_q, log_a = q.sample_scored(20, np.random.default_rng(0))
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


def search(places, budget="2048", **how):
    """Return what a search over several contexts finds."""
    made = stages.Stages(places=places, seed=3, progress=False)
    request = Request(0.1, 0.95, 10_000)
    return Search(stages=made, budget=read_budget(budget), request=request, **how)


def test_contexts_have_one_proposal(lm):
    """The parts that one search finds are exact, and closer, after every prompt."""
    places = [Place(base * AB * TWICE) for base in (lm.prompted(p) for p in ("a", "ab", "b"))]
    found = search(places, 8_192).run()
    assert "base and head" in [one.name for one in found.record.tried]
    for target, _ in places:
        q = mix_parts(target.base, found.parts, found.features, found.every)
        log_a, log_q = q.log_prob_each(texts_of(target.base))
        assert np.exp(log_q).sum() == pytest.approx(1, abs=1e-5)
        assert kl(target, log_q) < 0.8 * kl(target, log_a)


def test_contexts_count_alike_whatever_their_z(lm):
    """Weights of the texts of a context do not depend on how likely its constraint is."""
    steep = lm.prompted("a") * AB * qr.tilt(qr.Feature("one", lambda _: 1.0, high=1.0), 5.0)
    one = search([Place(lm.prompted("a") * AB), Place(steep)])
    q = one._mixture({"base": 1.0})
    one.stages.learn(q, 4_000)
    weight, sizes = np.exp(one._pool(1.0).log_weight), [len(k.texts) for k in one.stages.kept]
    assert weight[: sizes[0]].sum() == pytest.approx(weight[sizes[0] :].sum(), rel=0.05)


def test_proposals_that_are_given_are_tried(lm):
    """A prompt that helps is in the mixture, which is exact; one that does not help is not."""
    target = lm * TWICE * NOT_B
    best = Peaked(target)
    q = propose(target, lm, 2_048, 0, False, candidates=[lm.prompted("a"), best])
    costs = {one.name: one.seconds_per_sample for one in q.record.tried}
    assert {"base and given 1", "base and given 2"} <= costs.keys()
    assert best in q.components
    assert "given 2" in q.record.best.weights
    assert np.exp(q.log_prob(texts_of(lm))).sum() == pytest.approx(1, abs=1e-5)
    assert kl(target, q.log_prob(texts_of(lm))) < 0.5


class Peaked:
    """The target itself, by enumeration."""

    def __init__(self, target):
        self.texts = texts_of(target.base)
        log_p = target.log_score(self.texts)
        self.log_p = log_p - np.logaddexp.reduce(log_p)
        self.of = {ids: x for ids, x in zip(self.texts.tuples(), self.log_p, strict=True)}

    def sample(self, n, rng):
        at = rng.choice(len(self.texts), size=n, p=np.exp(self.log_p))
        return qr.core.types.Batch(take(self.texts, at), self.log_p[at])

    def log_prob(self, items):
        return np.array([self.of[ids] for ids in items.tuples()])


def test_words_that_the_user_knows_are_boosted(lm):
    q = propose(lm * TWICE * NOT_B, lm, 2_048, 1, False, words=["aa"])
    assert "base and boosts" in [one.name for one in q.record.tried]
    with pytest.raises(qr.errors.InputError, match="cannot be boosted"):
        propose(lm * TWICE, lm, 2_048, 1, False, words=[3])


def test_a_budget_is_draws_or_time(hard):
    assert read_budget("4min").seconds == 240
    assert read_budget("4096").draws == 4096
    for wrong in ("soon", "0min", "-1s", "4 weeks", 10):
        with pytest.raises(qr.errors.InputError, match="budget"):
            read_budget(wrong)
    one = search([Place(hard)], "1s")
    one.stages.draw = lambda q, n: [qr.draw(hard, q(0), n, seed=0)]
    one.stages.seconds = 1e-4
    one._is_easy()
    assert one.size == (4_000 - 256) // 5  # heads are slower than the base, and are trained


def test_an_engine_changes_no_draw(hard, monkeypatch):
    """Stages that are large enough are drawn by the engine, and what is found is the same."""
    tasks, engine = [], qr.engines.Local()
    inner = qr.engines.Local.map
    monkeypatch.setattr(stages, "SHARED_OUT", 300)
    monkeypatch.setattr(
        qr.engines.Local, "map", lambda self, *a, **k: tasks.append(1) or inner(self, *a, **k)
    )
    by = [propose(hard, hard.base, 2_048, 2, False, engine=e) for e in (None, engine)]
    assert tasks
    np.testing.assert_array_equal(*(q.log_prob(texts_of(hard.base)) for q in by))
