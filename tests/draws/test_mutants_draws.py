"""Draws: the same from every engine, nothing drawn twice, and nothing asked for in vain."""

import numpy as np
import pytest

import quasir as qr
from quasir.core.streams import BLOCK, DrawStreams
from quasir.draws.draw_blocks import AT_ONCE, draw_pieces

TARGET = qr.Table({"a": 0.4, "b": 0.3, "c": 0.3})
PROPOSAL = qr.Table({"a": 0.2, "b": 0.3, "c": 0.4, "d": 0.1})


class Backwards:
    """An engine that works in this process, from the last task to the first."""

    def __init__(self):
        self.tasks = []

    def map(self, setup, tasks):
        work = setup()
        self.tasks = list(tasks)
        for task in reversed(self.tasks):
            yield task, work(task)


@pytest.mark.parametrize("n", [1, BLOCK - 1, BLOCK, BLOCK + 1, 33 * BLOCK + 5, 65 * BLOCK])
def test_an_engine_draws_every_block_once(n):
    engine, calls = Backwards(), []
    draws = qr.draw(
        TARGET, PROPOSAL, n, seed=4, engine=engine, progress=lambda *call: calls.append(call)
    )
    plain = qr.draw(TARGET, PROPOSAL, n, seed=4)
    assert len(draws) == n == len(plain)
    for name in ("log_p", "log_q", "log_u"):
        np.testing.assert_array_equal(getattr(draws, name), getattr(plain, name))
    assert list(draws.items) == list(plain.items)
    blocks = [first + i for first, count in engine.tasks for i in range(count)]
    assert blocks == list(range(-(-n // BLOCK)))
    assert calls[-1] == (n, n, n)


@pytest.mark.parametrize("n", [1, 5, BLOCK, BLOCK + 1, 5 * BLOCK + 7])
def test_the_first_draws_of_a_longer_run_are_those_of_a_shorter_one(n):
    short, long = (qr.draw(TARGET, PROPOSAL, size, seed=2) for size in (n, 9 * BLOCK))
    assert list(short.items) == list(long.items)[:n]
    np.testing.assert_array_equal(short.log_u, long.log_u[:n])
    np.testing.assert_array_equal(short.log_q, PROPOSAL.log_prob(list(short.items)))


@pytest.mark.parametrize("n", [1, 3, BLOCK + 2])
def test_given_scores_have_the_uniforms_of_seed_0(n):
    draws = qr.Draws.from_arrays(np.zeros(n), np.zeros(n))
    assert draws.seed == 0
    for seed in (0, 5):
        seeded = qr.Draws.from_arrays(np.zeros(n), np.zeros(n), seed=seed)
        log_u = qr.draw(TARGET, PROPOSAL, n, seed=seed).log_u
        np.testing.assert_array_equal(seeded.log_u, log_u)
        assert (seeded.log_u == draws.log_u).all() == (seed == 0)


def test_one_draw_is_enough_and_none_is_not():
    assert len(qr.Draws.from_arrays([0.0], [0.0], log_base=[0.0], features={"f": [1.0]})) == 1
    with pytest.raises(qr.errors.InputError, match="no draws"):
        qr.Draws.from_arrays([], [])
    for wrong in ({"log_base": [0.0]}, {"features": {"f": [1.0]}}, {"items": ["a"]}):
        with pytest.raises(qr.errors.InputError, match="has length 1, but log_q has 2"):
            qr.Draws.from_arrays([0.0, 0.0], [0.0, 0.0], **wrong)


def test_a_base_must_be_finite_where_p_is_positive_only():
    impossible = qr.Draws.from_arrays([-np.inf, 0.0], [0.0, 0.0], log_base=[np.nan, -1.0])
    assert len(impossible) == 2
    with pytest.raises(
        qr.errors.InputError, match=r"log_base is nan at draw 1, .* \(1 such draws\)"
    ):
        qr.Draws.from_arrays([-np.inf, 0.0], [0.0, 0.0], log_base=[-1.0, np.nan])


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_draws_of_a_mixture_with_the_base_know_log_a(share):
    base, other = qr.Table({"a": 0.9, "b": 0.1}), qr.Table({"a": 0.2, "b": 0.8})
    target = base * qr.tilt(qr.Feature("b", lambda x: x == "b", boolean=True), np.log(4.0))
    proposal = base if share == 1 else qr.Mixture([other, base], [1 - share, share])
    draws = qr.draw(target, proposal, 3000, seed=1)
    np.testing.assert_allclose(draws.log_base, base.log_prob(list(draws.items)), rtol=1e-12)
    np.testing.assert_allclose(draws.log_q, proposal.log_prob(list(draws.items)), rtol=1e-12)
    assert draws.log_ceiling == pytest.approx(np.log(4.0 / share))
    # With P's own base mixed in, no ratio exceeds b/share.
    assert draws.log_ratio.max() <= draws.log_ceiling + 1e-12
    assert qr.draw(target, qr.Mixture([other, other]), 10, seed=1).log_ceiling == np.inf
    assert qr.draw(target, other, 10, seed=1).log_ceiling == np.inf


def test_joined_draws_are_their_parts():
    draws = qr.draw(TARGET, PROPOSAL, 50, seed=1)
    parts = [draws.take(np.arange(0, 20)), draws.take(np.arange(20, 50))]
    joined = qr.Draws.concatenate(parts)
    assert list(joined.items) == list(draws.items)
    np.testing.assert_array_equal(joined.log_alpha, draws.log_p - draws.log_q - draws.log_u)
    possible = int((draws.log_p > -np.inf).sum())
    assert 0 < possible < 50
    assert f"50 draws, {possible} with P(x) > 0, seed 1" in repr(draws)


@pytest.mark.parametrize("blocks", [2, 32, 63, 100])
def test_an_engine_has_a_task_for_each_of_many_workers(blocks):
    engine = Backwards()
    qr.draw(TARGET, PROPOSAL, blocks * BLOCK, seed=4, engine=engine)
    assert len(engine.tasks) >= min(blocks, 32)


def test_pieces_grow_to_a_largest_size(monkeypatch):
    monkeypatch.setattr("quasir.draws.draw_blocks.time.perf_counter", lambda: 0.0)  # all are quick
    pieces = [*draw_pieces(TARGET, PROPOSAL, DrawStreams(4), 0, 400 * BLOCK)]
    sizes = [len(piece) // BLOCK for piece in pieces]
    assert sum(sizes) == 400
    assert sizes[0] < sizes[1] < max(sizes) == AT_ONCE


@pytest.mark.parametrize("place", [1, 2])
def test_draws_with_other_columns_are_not_joined(place):
    plain = qr.Draws.from_arrays([0.0], [0.0])
    parts = [plain, plain, plain]
    for more in ({"features": {"f": [1.0]}}, {"items": ["a"]}):
        parts[place] = qr.Draws.from_arrays([0.0], [0.0], **more)
        with pytest.raises(qr.errors.InputError, match="must have the same columns"):
            qr.Draws.concatenate(parts)
        with pytest.raises(qr.errors.InputError, match="must have the same columns"):
            qr.Draws.concatenate([parts[place], plain])
