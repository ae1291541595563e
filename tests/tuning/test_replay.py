"""The pool: every draw is weighted as one of the mixture of all proposals."""

import numpy as np
import pytest

import quasir as qr
from quasir.draws.draws import Draws
from quasir.tuning.dpg import Loop
from quasir.tuning.evaluation import evaluate
from quasir.tuning.rounds import Pool, thin
from tests.text.tiny import every_text
from tests.tuning.exact import QUIET, model, noise, normalised, starts_with


def loop_of(target, base, **options):
    """Return a loop that has run, with all its draws."""
    small = {"steps": 60, "every": 10, "round_steps": 20, "batch": 32, "draws": 1000, "rate": 1e-2}
    loop = Loop(qr.tuning.DPG(target, base, **(small | options), **QUIET), None)
    loop.go()
    return loop


def test_draws_at_hand_are_the_first_round(tmp_path):
    base = model(limit=3)
    target = base * starts_with("a")
    qr.draw(base * starts_with("b"), base, 2000, seed=5).save(tmp_path)
    stored = qr.Draws.load(tmp_path)
    loop = loop_of(target, base, pool=stored, steps=1)
    rounds = loop.rounds
    assert (rounds.drawn, rounds.made) == (2000, 0)
    both = [*rounds.trained.items, *rounds.held_out.items]
    assert {text.token_ids for text in both} <= {text.token_ids for text in stored.items}
    for pool in (rounds.trained, rounds.held_out):
        np.testing.assert_allclose(pool.log_p, target.log_score(pool.items), atol=1e-4)
        np.testing.assert_allclose(pool.log_q[:, 0], base.log_prob(pool.items), atol=1e-4)
    z = np.exp(target.log_score(every_text(base))).sum()
    assert rounds.held_out.log_z == pytest.approx(np.log(z), abs=0.2)
    with pytest.raises(qr.errors.InputError, match="no items"):
        loop_of(target, base, pool=qr.Draws.from_arrays(log_p=[0.0], log_q=[0.0]))


def test_a_run_weights_by_the_mixture_of_its_proposals():
    base = model(limit=3)
    target = base * starts_with("a")
    loop = loop_of(target, base)
    rounds = loop.rounds
    assert rounds.current >= 2  # it has adapted more than once
    laws = [base, *(loop.policy.frozen(loop.checkpoints.proposal(k)) for k in range(1, 3))]
    for pool in (rounds.trained, rounds.held_out):
        drawn = pool.drawn.sum(axis=0)
        assert (drawn[:3] > 0).all()
        for k, law in enumerate(laws):
            np.testing.assert_allclose(pool.log_q[:, k], law.log_prob(pool.items), atol=1e-4)
        mixture = np.exp(pool.log_q) @ (drawn / drawn.sum())
        np.testing.assert_allclose(np.exp(pool.log_m), mixture)
        weights = np.exp(target.log_score(pool.items)) / mixture
        np.testing.assert_allclose(np.exp(pool.log_weight), weights, rtol=1e-4, atol=1e-12)
    assert rounds.trained.n + rounds.held_out.n == rounds.drawn
    assert rounds.held_out.n == pytest.approx(0.2 * rounds.drawn, abs=rounds.count)


def test_weights_of_one_proposal_alone_would_be_others():
    """The negative control: what each draw came from is not what it is weighted by."""
    base = model(limit=3)
    pool = loop_of(base * starts_with("a"), base).rounds.trained
    first = pool.log_q[:, 0]
    assert np.abs(pool.log_m - first).max() > 0.1


def test_no_draw_is_both_trained_on_and_held_out(monkeypatch):
    base = model(limit=3)
    seen = []
    add = Pool.add

    def spy(pool, draws, *args):
        seen.append((pool, draws.log_u))
        add(pool, draws, *args)

    monkeypatch.setattr(Pool, "add", spy)
    rounds = loop_of(base * qr.tilt(noise(1.0), 1.0), base).rounds
    trained = np.concatenate([u for pool, u in seen if pool is rounds.trained])
    held_out = np.concatenate([u for pool, u in seen if pool is rounds.held_out])
    assert not np.isin(trained, held_out).any()
    assert len(trained) + len(held_out) == rounds.drawn  # P(x) > 0 everywhere


def test_z_from_the_mixture_is_right():
    base = model(limit=3)
    target = base * starts_with("a") * qr.tilt(noise(1.0), 1.0)
    rounds = loop_of(target, base, draws=4000).rounds
    exact = np.exp(target.log_score(every_text(base))).sum()
    log_z = evaluate(rounds.held_out, rounds.held_out.log_q[:, 0]).log_z
    assert log_z.value == rounds.held_out.log_z
    assert abs(log_z.value - np.log(exact)) < 4 * log_z.se
    assert log_z.se < 0.02


def test_thinning_keeps_sums():
    rng = np.random.default_rng(0)
    n = 2000
    log_p = np.where(rng.random(n) < 0.1, 0.0, -np.inf)
    draws = Draws.from_arrays(log_p, np.zeros(n), features={"x": rng.normal(3, 1, n)})
    whole = draws.features["x"].sum()
    sums = []
    for _ in range(200):
        kept, stands_for = thin(draws, rng)
        assert (kept.log_p > -np.inf).sum() == (log_p > -np.inf).sum()
        assert stands_for.sum() == pytest.approx(n)
        sums.append(float(stands_for @ kept.features["x"]))
    error = np.std(sums) / np.sqrt(len(sums))
    assert abs(np.mean(sums) - whole) < 4 * error


def test_forgetting_whole_rounds_keeps_z_and_the_first_ones():
    base = model(limit=3)
    target = base * starts_with("a")
    rounds = loop_of(target, base, memory=1500, steps=200).rounds
    assert rounds.drawn > rounds.trained.n + rounds.held_out.n
    assert len(rounds.trained) < 3000
    assert set(range(rounds.first)) <= set(rounds.trained.rounds)
    exact = np.exp(target.log_score(every_text(base))).sum()
    log_z = evaluate(rounds.held_out, rounds.held_out.log_q[:, 0]).log_z
    assert abs(log_z.value - np.log(exact)) < 4 * log_z.se


def test_a_pool_comes_back_from_its_arrays():
    base = model(limit=3)
    pool = loop_of(base * starts_with("a"), base, steps=10).rounds.held_out
    again = Pool.from_dict(pool.to_dict(), base.tokenizer)
    np.testing.assert_array_equal(again.log_weight, pool.log_weight)
    assert list(again.items) == list(pool.items)
    assert again.features.keys() == pool.features.keys()


def test_the_law_of_the_target_is_that_of_the_weighted_pool():
    """Draws of all proposals together, weighted, give each text its probability under p."""
    base = model(limit=2)
    target = base * starts_with("a") * qr.tilt(noise(1.0), 1.0)
    pool = loop_of(target, base, draws=8000).rounds.trained
    texts = every_text(base)
    p = normalised(target, texts)
    keys = {tuple(texts.token_ids(i).tolist()): i for i in range(len(texts))}
    which = np.array([keys[tuple(pool.items.token_ids(i).tolist())] for i in range(len(pool))])
    w = np.exp(pool.log_weight)
    seen = np.bincount(which, w, minlength=len(texts)) / w.sum()
    np.testing.assert_allclose(seen, p, atol=0.02)
