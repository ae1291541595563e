"""Processes on one machine give the draws of one, whatever happens to them."""

import numpy as np
import pytest
from scipy import stats

import quasir as qr
from quasir.engines import Local, local
from quasir.runs.draw_shards import draw_into
from quasir.store import Store
from tests.engines.faulty import Faulty
from tests.store.test_store import same

TARGET, PROPOSAL = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))
N = 7000


def hashes(store):
    return {number: shard.sha256 for number, shard in Store.open(store.folder).shards.items()}


def create(folder):
    return Store.create(folder, seed=4, blocks_a_shard=1)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    store = create(tmp_path_factory.mktemp("whole") / "run")
    draw_into(store, TARGET, PROPOSAL, N)
    return store


def rare(store, shard):
    """Return an item that is in this shard alone."""
    items = np.asarray(qr.Draws.load(store).items)
    mine = np.arange(len(items)) // store.shard_size == shard
    found = set(items[mine]) - set(items[~mine])
    return int(max(found))


@pytest.fixture(scope="module")
def rare_shard(whole):
    """Return a shard that has an item of its own, and that item."""
    for shard in whole.shards:
        try:
            return shard, rare(whole, shard)
        except ValueError:
            continue
    raise AssertionError("no shard has an item of its own")


def test_two_processes_draw_the_same(whole, tmp_path):
    store = create(tmp_path / "run")
    assert draw_into(store, TARGET, PROPOSAL, N, engine=Local(processes=2, threads=1)) == N
    assert hashes(store) == hashes(whole)
    assert store.manifest.workers in (1, 2)
    assert store.manifest.machines == 1
    assert all(shard.seconds > 0 for shard in Store.open(store.folder).shards.values())
    drawn = qr.draw(TARGET, PROPOSAL, N, seed=4, engine=Local(processes=2))
    same(drawn, qr.draw(TARGET, PROPOSAL, N, seed=4))
    np.testing.assert_array_equal(drawn.items, qr.Draws.load(whole).items)


def test_this_process_is_an_engine_too(whole, tmp_path):
    store = create(tmp_path / "run")
    told = []

    def report(*done):
        told.append(done)
        (store.folder / "draws" / ".shard-00001.parquet.killed.partial").touch()

    draw_into(store, TARGET, PROPOSAL, N, report, engine=Local())
    assert hashes(store) == hashes(whole)
    left = {path.name for path in (store.folder / "draws").iterdir()}
    assert left == {path.name for path in (whole.folder / "draws").iterdir()}
    assert told[-1] == (N, N, N)
    assert [done for done, *_ in told] == sorted(done for done, *_ in told)


def test_a_process_that_dies_loses_nothing(whole, tmp_path, rare_shard):
    _, bad = rare_shard
    store = create(tmp_path / "run")
    target = Faulty(str(tmp_path), bad, times=2)
    draw_into(store, target, PROPOSAL, N, engine=Local(processes=2, threads=1))
    assert len(list(tmp_path.glob("fault-*"))) == 2
    assert hashes(store) == hashes(whole)
    left = {path.name for path in (tmp_path / "run" / "draws").iterdir()}
    assert left == {path.name for path in (whole.folder / "draws").iterdir()}


def fails_three_times(whole, folder, rare_shard, kill, engine):
    """Draw with a target that always fails for one shard; return the store."""
    shard, bad = rare_shard
    store = create(folder / "run")
    target = Faulty(str(folder), bad, times=99, kill=kill)
    reason = "died" if kill else "ValueError: .* cannot be scored"
    with pytest.raises(
        qr.errors.QuasirError, match=f"shard {shard} failed 3 times.*{reason}"
    ) as caught:
        draw_into(store, target, PROPOSAL, N, engine=engine)
    assert caught.value.number == shard
    kept = hashes(store)
    assert kept
    assert kept == {number: h for number, h in hashes(whole).items() if number in kept}
    assert shard not in kept
    return store


@pytest.mark.parametrize("kill", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_shard_that_fails_three_times_is_named(whole, tmp_path, rare_shard, kill):
    engine = Local(processes=2, threads=1)
    store = fails_three_times(whole, tmp_path, rare_shard, kill, engine)
    # Mended, the same call goes on.
    draw_into(Store.open(store.folder), TARGET, PROPOSAL, N)
    assert hashes(store) == hashes(whole)


@pytest.mark.parametrize("speed", ["faster", pytest.param("slower", marks=pytest.mark.slow)])
def test_the_faster_way_is_measured_and_told(whole, tmp_path, monkeypatch, speed):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(local.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(local, "WORTH_MEASURING", 2)
    monkeypatch.setattr(local, "LONG", 0.0)
    monkeypatch.setattr(local, "CLEARLY", 1e-9 if speed == "faster" else 1e9)
    told, store = [], create(tmp_path / "run")
    draw_into(store, TARGET, PROPOSAL, N, engine=Local(measure=True, tell=told.append))
    assert hashes(store) == hashes(whole)
    (sentence,) = told
    assert "2 processes of 1 threads draw" in sentence
    assert sentence.endswith("2 processes" if speed == "faster" else "with one")


@pytest.mark.parametrize("few", ["shards", "seconds"])
def test_a_short_run_is_not_measured(tmp_path, monkeypatch, few):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(local, "LONG" if few == "shards" else "WORTH_MEASURING", 0)
    monkeypatch.setattr(local, "ProcessPoolExecutor", None)  # that no process is started
    told, store = [], create(tmp_path / "run")
    draw_into(store, TARGET, PROPOSAL, 3000, engine=Local(measure=True, tell=told.append))
    assert told == []
    assert len(store) == 3000


@pytest.mark.slow
def test_threads_change_no_draw():
    """Or what was measured to be faster would decide on what is drawn."""
    torch = pytest.importorskip("torch")
    base = qr.text.CausalLM("quasir/biographies", max_tokens=40)
    before, drawn = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            drawn.append(qr.draw(base * qr.features.female, base, 128, seed=0))
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(drawn[0].items.ids, drawn[1].items.ids)
    same(*drawn)


def test_wrong_numbers_are_refused():
    for options in ({"processes": 0}, {"threads": 0}):
        with pytest.raises(qr.errors.InputError, match="above 0"):
            Local(**options)
    with pytest.raises(qr.errors.InputError, match="above 0"):
        qr.engines.Ray(workers=0)
