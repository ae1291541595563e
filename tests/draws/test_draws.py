import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import quasir as qr
from quasir.core.streams import BLOCK, DrawStreams, Purpose, root_seed

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


def test_blocks_are_seeded_as_the_format_says():
    draws = qr.draw(TARGET, PROPOSAL, 2 * BLOCK, seed=9)
    propose, accept = (
        np.random.default_rng(np.random.SeedSequence(9, spawn_key=(purpose, 1, 0)))
        for purpose in (2**31, 2**31 + 1)
    )
    assert (Purpose.PROPOSE, Purpose.ACCEPT) == (2**31, 2**31 + 1)
    np.testing.assert_array_equal(draws.items[BLOCK:], PROPOSAL.sample(BLOCK, propose).items)
    log_u = -accept.standard_exponential(BLOCK)
    np.testing.assert_array_equal(draws.log_u[BLOCK:], log_u)


def test_seeds():
    assert root_seed(np.random.default_rng(1)) == root_seed(np.random.default_rng(1))
    assert root_seed(None) != root_seed(None)
    for wrong in (-1, 1.5, "a", True, 2**128):
        with pytest.raises(qr.errors.InputError, match="seed"):
            root_seed(wrong)
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


def test_impossible_items_are_never_accepted():
    draws = qr.Draws.from_arrays(log_p=np.full(5000, -np.inf), log_q=np.zeros(5000))
    assert len(draws.accepted(log_beta=-1e9)) == 0
    assert DrawStreams(0).log_u(0).max() <= 0
    assert np.isfinite(DrawStreams(0).log_u(0)).all()


def test_from_arrays_has_the_uniforms_of_its_seed():
    drawn = qr.draw(TARGET, PROPOSAL, 1500, seed=4)
    made = qr.Draws.from_arrays(drawn.log_p, drawn.log_q, items=drawn.items, seed=4)
    same(drawn, made)


def test_concatenate_and_take():
    draws = qr.Draws.from_arrays(
        [0.0, -1.0, -np.inf],
        [-1.0, -1.0, -1.0],
        items=["a", "b", "c"],
        log_base=[-1.0, -1.0, np.nan],
        features={"f": [True, False, True]},
    )
    both = qr.Draws.concatenate([draws, draws.take([0])])
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
        ({"log_p": ["a"], "log_q": [0]}, "not numbers"),
    ],
)
def test_bad_columns_are_named(columns, message):
    with pytest.raises(qr.errors.QuasirError) as error:
        qr.Draws.from_arrays(**columns)
    assert message in str(error.value)


class Broken:
    def __init__(self, items, log_q):
        self.answer = (items, log_q)

    def sample(self, n, rng):
        return self.answer

    def log_prob(self, items):
        return np.zeros(len(items))


@pytest.mark.parametrize(
    ("target", "proposal", "message"),
    [
        (lambda x: np.zeros((len(x), 2)), PROPOSAL, "<lambda> gave log P of shape"),
        (lambda x: np.full(len(x), np.nan), PROPOSAL, "<lambda> gave log P = nan"),
        (lambda x: 0.0, PROPOSAL, "shape ()"),
        (3, PROPOSAL, "the target is a int"),
        (TARGET, object(), "the proposal is a object"),
        (TARGET, Broken(np.arange(3), np.zeros(3)), "gave 3 items; it must give"),
        (TARGET, Broken(np.arange(BLOCK), np.full(BLOCK, -np.inf)), "log q = -inf"),
        (TARGET, Broken(np.arange(BLOCK), np.zeros(3)), "log q of shape (3,)"),
    ],
)
def test_bad_scorers_are_named(target, proposal, message):
    with pytest.raises(qr.errors.QuasirError) as error:
        qr.draw(target, proposal, 10, seed=0)
    assert message in str(error.value)


@pytest.mark.parametrize("n", [0, -1, 2.5, True, "3"])
def test_a_wrong_number_of_draws_is_refused(n):
    with pytest.raises(qr.errors.InputError, match="n is"):
        qr.draw(TARGET, PROPOSAL, n, seed=0)


def test_progress(capsys):
    calls = []
    qr.draw(TARGET, PROPOSAL, 70_000, seed=0, progress=lambda *call: calls.append(call))
    assert calls[-1] == (70_000, 70_000, 70_000)
    qr.draw(TARGET, PROPOSAL, 2000, seed=0, progress=True)
    assert "2,000/2,000 drawn" in capsys.readouterr().err
