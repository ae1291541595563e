"""The pools of a run: what their draws weigh, what is estimated from them, what is kept."""

import numpy as np
import pytest

import quasir as qr
from quasir.draws.draws import Draws
from quasir.tuning.evaluation import better_by, evaluate
from quasir.tuning.rounds import Pool, thin
from tests.text.tiny import every_text
from tests.tuning.exact import loop_of, model, noise, normalised, pool_of, starts_with


@pytest.fixture(scope="module")
def run():
    """Return a base, a target, and the loop of a run that has adapted more than once."""
    base = model(limit=3)
    target = base * starts_with("a") * qr.tilt(noise(1.0), 1.0)
    return base, target, loop_of(target, base, draws=4000)


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


def test_a_run_weights_by_the_mixture_of_its_proposals(run):
    base, target, loop = run
    rounds = loop.rounds
    assert rounds.current >= 2  # it has adapted more than once
    proposals = [base, *(loop.policy.frozen(loop.checkpoints.proposal(k)) for k in range(1, 3))]
    for pool in (rounds.trained, rounds.held_out):
        drawn = pool.drawn.sum(axis=0)
        assert (drawn[:3] > 0).all()
        for k, proposal in enumerate(proposals):
            np.testing.assert_allclose(pool.log_q[:, k], proposal.log_prob(pool.items), atol=1e-4)
        mixture = np.exp(pool.log_q) @ (drawn / drawn.sum())
        np.testing.assert_allclose(np.exp(pool.log_m), mixture)
        weights = np.exp(target.log_score(pool.items)) / mixture
        np.testing.assert_allclose(np.exp(pool.log_weight), weights, rtol=1e-4, atol=1e-12)
        # The control: the proposal that a draw came from is not what it is weighted by.
        assert np.abs(pool.log_m - pool.log_q[:, 0]).max() > 0.1
    assert rounds.trained.n + rounds.held_out.n == rounds.drawn
    assert rounds.held_out.n == pytest.approx(0.2 * rounds.drawn, abs=rounds.count)


def test_no_draw_is_both_trained_on_and_held_out(monkeypatch):
    base = model(limit=3)
    seen = []
    add = Pool.add

    def spy(pool, draws, *args):
        seen.append((pool, draws.log_u))
        add(pool, draws, *args)

    monkeypatch.setattr(Pool, "add", spy)
    rounds = loop_of(base * qr.tilt(noise(1.0), 1.0), base, steps=20).rounds
    trained = np.concatenate([u for pool, u in seen if pool is rounds.trained])
    held_out = np.concatenate([u for pool, u in seen if pool is rounds.held_out])
    assert not np.isin(trained, held_out).any()
    assert len(trained) + len(held_out) == rounds.drawn  # P(x) > 0 everywhere


def test_z_and_the_distribution_of_the_target_are_those_of_the_weighted_pool(run):
    """Draws of all proposals together, weighted, give each text its probability under p."""
    base, target, loop = run
    texts = every_text(base)
    scores = np.exp(target.log_score(texts))
    log_z = evaluate(loop.rounds.held_out, loop.rounds.held_out.log_q[:, 0]).log_z
    assert log_z.value == loop.rounds.held_out.log_z
    assert abs(log_z.value - np.log(scores.sum())) < 4 * log_z.se
    assert log_z.se < 0.02
    pool = loop.rounds.trained
    keys = {tuple(texts.token_ids(i).tolist()): i for i in range(len(texts))}
    which = np.array([keys[tuple(pool.items.token_ids(i).tolist())] for i in range(len(pool))])
    w = np.exp(pool.log_weight)
    seen = np.bincount(which, w, minlength=len(texts)) / w.sum()
    np.testing.assert_allclose(seen, scores / scores.sum(), atol=0.02)


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


def test_a_pool_comes_back_from_its_arrays(run):
    base, _, loop = run
    pool = loop.rounds.held_out
    again = Pool.from_dict(pool.to_dict(), base.tokenizer)
    np.testing.assert_array_equal(again.log_weight, pool.log_weight)
    assert list(again.items) == list(pool.items)
    assert again.features.keys() == pool.features.keys()


def setting():
    """Return the texts, and the exact P, pi and two proposals."""
    base = model(limit=3)
    texts = every_text(base)
    target = base * starts_with("a") * qr.tilt(noise(1.0), 1.0)
    with np.errstate(divide="ignore"):
        log_p = np.log(normalised(target, texts)) + 3.0
    rng = np.random.default_rng(1)
    pi, first, second = np.exp(base.log_prob(texts) + rng.normal(0, 0.4, (3, len(texts))))
    return base, texts, log_p, *(each / each.sum() for each in (pi, first, second))


def exact_values(log_p, pi):
    p = np.exp(log_p - 3.0)
    inside = p > 0
    kl = float(p[inside] @ np.log(p[inside] / pi[inside]))
    return p, kl, float(np.maximum(p - pi, 0).sum())


def test_expectations_are_exact():
    """A pool that holds every text as often as the proposals give it: no draw, no error."""
    base, texts, log_p, pi, first, second = setting()
    pool = pool_of(texts, log_p, [first, second], [300, 100], base.tokenizer)
    pool.features = {"long": texts.lengths > 1}
    p, kl, tvd = exact_values(log_p, pi)
    evaluation = evaluate(pool, np.log(pi))
    assert evaluation.log_z.value == pytest.approx(3.0, abs=1e-10)
    assert evaluation.kl.value == pytest.approx(kl, abs=1e-10)
    assert evaluation.tvd.value == pytest.approx(tvd, abs=1e-10)
    inside = p > 0
    efficiency = 1 / (p[inside] ** 2 / pi[inside]).sum()
    assert evaluation.efficiency == pytest.approx(efficiency, rel=1e-10)
    moments = evaluation.moments
    assert moments["long"].value == pytest.approx(pi @ pool.features["long"], abs=1e-10)
    assert moments["possible"].value == pytest.approx(pi[inside].sum(), abs=1e-10)
    mixture = 0.75 * first + 0.25 * second
    assert evaluation.ess == pytest.approx(400 / (p**2 / mixture).sum(), rel=1e-10)
    gain = better_by(pool, np.log(pi), np.log(first))
    assert gain.value == pytest.approx(exact_values(log_p, first)[1] - kl, abs=1e-10)


def drawn_pool(rng, base, texts, log_p, proposals, sizes):
    """Draw a pool from several proposals, as a run does; `index` says which text each draw is."""
    pool, index = Pool(base.tokenizer), []
    for _ in proposals:
        pool.add_proposal(lambda items: np.empty(0))
    for k, (q, n) in enumerate(zip(proposals, sizes, strict=True)):
        chosen = rng.choice(len(texts), n, p=q)
        column = {"index": chosen.astype(float)}
        draws = Draws(
            log_p=log_p[chosen],
            log_q=np.log(q[chosen]),
            log_u=np.zeros(n),
            items=texts.take(chosen),
            features=column,
        )
        kept, stands_for = thin(draws, rng)
        at = kept.features["index"].astype(int)
        others = {
            j: (lambda items, j=j, at=at: np.log(proposals[j][at]))
            for j in range(len(proposals))
            if j != k
        }
        pool.add(kept, n, stands_for, k, others, 0)
        index.append(at)
    return pool, np.concatenate(index)


def test_intervals_cover():
    """95 % of the intervals hold the exact value, within what 400 runs can tell."""
    base, texts, log_p, pi, first, second = setting()
    _, kl, tvd = exact_values(log_p, pi)
    old = np.log(first)
    better = exact_values(log_p, first)[1] - kl
    possible = pi[log_p > -np.inf].sum()
    rng = np.random.default_rng(0)
    inside = {"kl": 0, "tvd": 0, "z": 0, "better": 0, "possible": 0}
    runs = 400
    for _ in range(runs):
        held_out, index = drawn_pool(rng, base, texts, log_p, [first, second], [3000, 1000])
        log_pi, was = np.log(pi)[index], old[index]
        evaluation = evaluate(held_out, log_pi)
        parts = {
            "kl": (evaluation.kl, kl),
            "tvd": (evaluation.tvd, tvd),
            "z": (evaluation.log_z, 3.0),
            "possible": (evaluation.moments["possible"], possible),
            "better": (better_by(held_out, log_pi, was), better),
        }
        for name, (part, value) in parts.items():
            inside[name] += part.low <= value <= part.high
    # 4 standard errors of a proportion of 0.95 in 400 runs are 0.044.
    assert all(0.906 <= count / runs <= 0.994 for count in inside.values()), inside


def test_a_proposal_that_cannot_give_a_text_is_worse():
    base, texts, log_p, pi, first, second = setting()
    pool = pool_of(texts, log_p, [first, second], [300, 100], base.tokenizer)
    log_old = np.log(first)
    log_old[np.argmax(log_p)] = -np.inf
    gain = better_by(pool, np.log(pi), log_old)
    assert gain.value == np.inf
    assert gain.value > gain.se
