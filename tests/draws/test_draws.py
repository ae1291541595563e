import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import quasir as qr
from quasir.core.streams import BLOCK, DrawStreams
from quasir.draws.draw_blocks import AT_ONCE, draw_pieces

TARGET = qr.from_scipy(stats.poisson(11))
PROPOSAL = qr.from_scipy(stats.poisson(10))


class Unstable:
    """A proposal whose first items depend on how many are asked for."""

    def sample(self, n, rng):
        items = rng.permutation(n)
        return items, np.full(n, -np.log(n))

    def log_prob(self, items):
        return np.full(len(items), -np.log(BLOCK))


def same(a, b):
    assert list(a.items) == list(b.items)
    for name in ("log_p", "log_q", "log_u"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 3000), st.integers(1, 5000), st.sampled_from(["poisson", "table", "unstable"])
)
def test_draw_i_depends_on_seed_and_i_only(n, batch_size, kind):
    """Law 5: the batch size and how many are drawn change nothing."""
    proposal = {
        "poisson": PROPOSAL,
        "table": qr.Table({"a": 1, "b": 2, "c": 3}),
        "unstable": Unstable(),
    }[kind]
    target = (lambda items: np.zeros(len(items))) if kind != "poisson" else TARGET
    short = qr.draw(target, proposal, n, seed=5, batch_size=batch_size)
    long = qr.draw(target, proposal, 3000, seed=5)
    same(short, long.take(np.arange(n)))


def test_a_generator_is_a_seed():
    a, b = (qr.draw(TARGET, PROPOSAL, 10, seed=np.random.default_rng(3)) for _ in range(2))
    same(a, b)
    assert a.seed == b.seed


def test_global_random_state_is_not_touched():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    qr.draw(TARGET, PROPOSAL, 5000, seed=1)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-3, 3), min_size=2, max_size=10))
def test_accepted_sets_are_nested(log_betas):
    draws = qr.draw(TARGET, PROPOSAL, 2000, seed=0)
    sets = [set(draws.accepted(log_beta=b).tolist()) for b in sorted(log_betas)]
    assert all(small <= large for large, small in itertools.pairwise(sets))


def test_the_samples_of_a_certificate_are_the_draws_accepted_at_its_beta():
    draws = qr.draw(qr.Table({"a": 3, "b": 1}), qr.Table({"a": 1, "b": 1}), 1_000, seed=0)
    certificate = qr.tradeoff(draws).at(tvd=0.05)
    samples = draws.samples(certificate)
    assert len(samples) == pytest.approx(1_000 * certificate.acceptance_rate.value, rel=0.1)
    assert (samples.log_alpha > certificate.log_beta).all()
    assert list(samples) == [draws[i] for i in draws.accepted(log_beta=certificate.log_beta)]
    with pytest.raises(qr.errors.InputError, match="not a certificate"):
        draws.samples(2.0)


def test_impossible_items_are_never_accepted():
    draws = qr.Draws.from_arrays(log_p=np.full(5000, -np.inf), log_q=np.zeros(5000))
    assert len(draws.accepted(log_beta=-1e9)) == 0
    assert DrawStreams(0).log_u(0).max() <= 0
    assert np.isfinite(DrawStreams(0).log_u(0)).all()


def test_concatenate_and_take():
    draws = qr.Draws.from_arrays(
        [0.0, -1.0, -np.inf],
        [-1.0, -1.0, -1.0],
        items=["a", "b", "c"],
        log_base=[-1.0, -1.0, np.nan],
        features={"f": [True, False, True]},
    )
    both = qr.Draws.concatenate([draws, draws.take([0])])
    np.testing.assert_array_equal(both.log_alpha[:3], draws.log_p - draws.log_q - draws.log_u)
    np.testing.assert_array_equal(both.log_u[[0, 3]], draws.log_u[0])
    assert list(both.items) == ["a", "b", "c", "a"]
    assert both.features["f"].tolist() == [True, False, True, True]
    assert both.features["f"].dtype == bool
    assert "3 draws, 2 with P(x) > 0" in repr(draws)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"log_p": [], "log_q": []}, "no draws"),
        ({"log_p": [0.0], "log_q": [0.0, 0.0]}, "log_p has length 1, but log_q has 2"),
        ({"log_p": [0, 0], "log_q": [0, 0], "items": ["a"]}, "items has length 1"),
        ({"log_p": [0, 0], "log_q": [0, 0], "features": {"f": [1]}}, "f has length 1"),
        ({"log_p": [0, 0], "log_q": [0, 0], "log_base": [1]}, "log_base has length 1"),
        ({"log_p": [np.nan, 0], "log_q": [0, 0]}, "log_p gave log P = nan"),
        ({"log_p": [np.inf, 0], "log_q": [0, 0]}, "log_p gave log P = inf"),
        ({"log_p": [0, 0], "log_q": [0, -np.inf]}, "log q = -inf for 1 of 2"),
        ({"log_p": [0, 0], "log_q": [0, np.nan]}, "log_q gave log q = nan"),
        ({"log_p": [0], "log_q": [0], "features": {"f": [np.nan]}}, "feature 'f' is nan"),
        ({"log_p": [0], "log_q": [0], "log_base": [-np.inf]}, "log_base is -inf at draw 0"),
        (
            {"log_p": [-np.inf, 0], "log_q": [0, 0], "log_base": [-1, np.nan]},
            "log_base is nan at draw 1, where P(x) > 0 (1 such draws)",
        ),
        ({"log_p": ["a"], "log_q": [0]}, "must be numbers"),
    ],
)
def test_bad_columns_are_named(columns, message):
    with pytest.raises(qr.errors.QuasirError) as error:
        qr.Draws.from_arrays(**columns)
    assert message in str(error.value)


TABLE = qr.Table({"a": 0.4, "b": 0.3, "c": 0.3})
LETTERS = qr.Table({"a": 0.2, "b": 0.3, "c": 0.4, "d": 0.1})


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
        TABLE, LETTERS, n, seed=4, engine=engine, progress=lambda *call: calls.append(call)
    )
    plain = qr.draw(TABLE, LETTERS, n, seed=4)
    assert len(draws) == n == len(plain)
    same(draws, plain)
    blocks = [first + i for first, count in engine.tasks for i in range(count)]
    assert blocks == list(range(-(-n // BLOCK)))
    assert len(engine.tasks) >= min(len(blocks), 32)  # one for each of many workers
    assert calls[-1] == (n, n, n)


@pytest.mark.parametrize("n", [1, 3, BLOCK + 2])
def test_given_scores_have_the_uniforms_of_seed_0(n):
    draws = qr.Draws.from_arrays(np.zeros(n), np.zeros(n))
    assert draws.seed == 0
    for seed in (0, 5):
        seeded = qr.Draws.from_arrays(np.zeros(n), np.zeros(n), seed=seed)
        log_u = qr.draw(TABLE, LETTERS, n, seed=seed).log_u
        np.testing.assert_array_equal(seeded.log_u, log_u)
        assert (seeded.log_u == draws.log_u).all() == (seed == 0)


def test_pieces_grow_to_a_largest_size(monkeypatch):
    monkeypatch.setattr("quasir.draws.draw_blocks.time.perf_counter", lambda: 0.0)  # all are quick
    pieces = [*draw_pieces(TABLE, LETTERS, DrawStreams(4), 0, 400 * BLOCK)]
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
