"""Draws on disk: what is read is what was written, and damage is found."""

import json
import math
import multiprocessing
import os
import resource

import numpy as np
import pytest
from scipy import stats

import quasir as qr
from quasir.core.items import Text
from quasir.runs.draw_shards import draw_into
from quasir.store import Shard, Store, locked
from quasir.store import store as store_module

LETTERS = qr.Table({"a": 0.5, "b": 0.3, "<script>": 0.2})
FLAT = qr.Table({"a": 1, "b": 1, "<script>": 1})


def same(one, other):
    """Assert that two sets of draws are the same, bit for bit."""
    for name in ("log_p", "log_q", "log_u"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert (one.log_base is None) == (other.log_base is None)
    if one.log_base is not None:
        np.testing.assert_array_equal(one.log_base, other.log_base)
    assert list(one.features) == list(other.features)
    for name in one.features:
        np.testing.assert_array_equal(one.features[name], other.features[name])
        assert one.features[name].dtype == other.features[name].dtype
    assert one.seed == other.seed
    assert one.warnings == other.warnings


@pytest.mark.parametrize(
    "items",
    [
        ["a", "日本", "", "x" * 1000],
        [3, 1, -4, 10**12],
        np.array([0.5, 1.5, -2.5, 1e300]),
        [["a", 1], {"b": None}, "c", 2.5],
        None,
        np.arange(16, dtype=np.int8).reshape(4, 4),
        np.random.default_rng(0).random((4, 2, 5)),
        np.arange(8, dtype=np.float32).reshape(4, 2),
        np.array([[True, False]] * 4),
        np.zeros((4, 0)),
        [np.arange(2), np.zeros((2, 2)), np.zeros((0, 3), np.int16), np.ones(1)],
        [(1, 2), ("a", (None, [1.5])), {"b": (1,)}, ()],
    ],
    ids=lambda items: f"{type(items).__name__} {getattr(items, 'shape', items)}"[:20],
)
def test_draws_come_back_as_they_were(tmp_path, items):
    draws = qr.Draws.from_arrays(
        log_p=[0.0, -np.inf, -1.0, -745.0],
        log_q=[-1.0, -2.0, -3.0, -4.0],
        items=items,
        log_base=[-0.5, np.nan, -1.0, -2.0],
        features={"yes": [True, False, True, True], "number": [0.1, 2.0, 3.0, 4.0]},
        seed=2**100,
    )
    draws.save(tmp_path / "run")
    read = qr.Draws.load(tmp_path / "run")
    same(draws, read)
    if items is None:
        assert read.items is None
        return
    for was, item in zip(draws.items, read.items, strict=True):
        assert type(item) is type(was)
        np.testing.assert_equal(item, was)
        if isinstance(was, np.ndarray):
            assert (item.dtype, item.shape) == (was.dtype, was.shape)
    if isinstance(items, np.ndarray) and items.size:
        assert read.items.shape == items.shape


def test_texts_keep_their_token_ids(tmp_path):
    texts = [Text("a b", (3, 4)), Text("", ()), Text("é", (7,))]
    qr.Draws.from_arrays([0.0] * 3, [-1.0] * 3, items=texts).save(tmp_path / "run")
    read = qr.Draws.load(tmp_path / "run")
    assert list(read.items) == texts
    assert list(read.take([2, 0]).items) == [texts[2], texts[0]]
    assert list(qr.Draws.concatenate([read, read]).items) == texts + texts
    some = Store.open(tmp_path / "run").items_of(0, np.array([2, 0]))
    assert list(some) == [texts[2], texts[0]]


def test_items_that_cannot_be_kept(tmp_path):
    draws = qr.Draws.from_arrays([0.0], [-1.0], items=[{1, 2}])
    with pytest.raises(qr.errors.InputError, match="an item is a set"):
        draws.save(tmp_path / "run")


def test_a_folder_with_a_run_is_not_written_over(tmp_path):
    draws = qr.Draws.from_arrays([0.0], [-1.0])
    draws.save(tmp_path / "run")
    with pytest.raises(qr.errors.InputError, match="holds a run already"):
        draws.save(tmp_path / "run")
    with pytest.raises(qr.errors.InputError, match="is no run"):
        qr.Draws.load(tmp_path / "elsewhere")


def drawn(folder, n, blocks_a_shard=2, **changes):
    store = Store.create(folder, seed=7, blocks_a_shard=blocks_a_shard)
    target = LETTERS * qr.Feature("a", lambda x: x == "a") if changes.get("tilt") else LETTERS
    draw_into(store, target, FLAT, n)
    return store


def test_shards_give_the_draws_of_one_call(tmp_path):
    drawn(tmp_path / "run", 5000)
    store = Store.open(tmp_path / "run")
    assert sorted(store.shards) == [0, 1, 2]
    assert [store.shards[i].draws for i in range(3)] == [2048, 2048, 904]
    same(qr.Draws.load(store), qr.draw(LETTERS, FLAT, 5000, seed=7))
    assert list(qr.Draws.load(store).items) == list(qr.draw(LETTERS, FLAT, 5000, seed=7).items)


@pytest.mark.parametrize("damage", ["truncated", "edited", "absent"])
def test_a_damaged_shard_is_found_named_and_redrawn(tmp_path, damage):
    store = drawn(tmp_path / "run", 5000)
    path = store.path(1)
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "edited":
        # A whole Parquet file, but with other numbers in it.
        path.write_bytes(store.path(0).read_bytes())
    else:
        path.unlink()
    opened = Store.open(tmp_path / "run")
    assert opened.damaged() == [1]
    with pytest.raises(
        qr.errors.StoreError, match=r"shard-00001\.parquet.*save them again"
    ) as caught:
        qr.Draws.load(opened)
    assert caught.value.damaged == [1]
    opened.forget([1])
    assert len(opened) == 2048
    assert draw_into(opened, LETTERS, FLAT, 5000) == 2048
    same(qr.Draws.load(Store.open(tmp_path / "run")), qr.draw(LETTERS, FLAT, 5000, seed=7))


def test_the_content_hash_is_of_the_draws(tmp_path):
    hashes = {}
    for name, n in (("one", 3000), ("two", 3000), ("more", 3001)):
        drawn(tmp_path / name, n)
        hashes[name] = json.loads((tmp_path / name / "manifest.json").read_text())["content"]
    assert hashes["one"] == hashes["two"] != hashes["more"]


def hold(folder, ready, done):
    with locked(folder):
        ready.set()
        done.wait(60)


def test_a_run_in_use_is_refused(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    process = context.Process(target=hold, args=(tmp_path, ready, done))
    process.start()
    assert ready.wait(60)
    with (
        pytest.raises(qr.errors.StoreError, match=f"in use by process {process.pid}"),
        locked(tmp_path),
    ):
        pass
    done.set()
    process.join(60)
    with locked(tmp_path):
        pass


def test_a_store_of_numbers_alone(tmp_path):
    target, proposal = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))
    draws = qr.draw(target, proposal, 3000, seed=1)
    draws.save(tmp_path / "run")
    store = Store.open(tmp_path / "run")
    same(qr.Draws.load(store, items=False), draws)
    assert qr.Draws.load(store, items=False).items is None
    np.testing.assert_array_equal(qr.Draws.load(store).items, draws.items)


def test_the_manifest_of_many_shards_is_not_written_with_each(tmp_path, monkeypatch):
    store, writes = Store.create(tmp_path / "run", seed=4, blocks_a_shard=1), []
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "write_json", lambda _, told: writes.append(told["shards"]))
        for number in range(2000):
            store.record(number, Shard(1024, "x"))
            # What a killed process would have to draw again is a small share.
            assert number + 1 - len(writes[-1]) <= len(store.shards) / 500
            if number < 499:
                assert len(writes) == number + 1
    assert 500 < len(writes) < 1300
    store.record(2000, Shard(1024, "x"))
    store.settle()
    assert len(Store.open(tmp_path / "run").shards) == 2001


def test_a_lock_that_cannot_be_written(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with (
            pytest.raises(qr.errors.StoreError, match=r"could not be written: .* make room"),
            locked(tmp_path),
        ):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with locked(tmp_path):
        assert (tmp_path / ".lock").read_text().startswith(f"{os.getpid()} on ")


@pytest.mark.parametrize(
    "item", [1j, {1: 2}, {"__quasir__": "tuple"}, np.array(["a"]), math.nan, 1 + 0j], ids=str
)
def test_items_that_would_come_back_as_others_are_refused(item, tmp_path):
    draws = qr.Draws.from_arrays(np.zeros(2), np.full(2, -1.0), items=[item, item])
    with pytest.raises(qr.errors.InputError, match="which a store cannot keep"):
        draws.save(tmp_path / "run")
