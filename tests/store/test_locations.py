"""Where shards lie, who holds a run, and how it is asked to stop."""

import os
import socket

import numpy as np
import pytest

import quasir as qr
from quasir.engines import Local
from quasir.runs.draw_shards import draw_into
from quasir.store import Store
from quasir.store.control import ask_to_stop, clear_stop, holder_ended, stop_asked
from quasir.store.locations import location_of
from tests.engines.test_local_engine import PROPOSAL, TARGET, N, hashes, whole
from tests.store.test_store import same

__all__ = ["whole"]


def test_shards_at_an_address(whole, tmp_path):
    """Shards go to any address of fsspec; manifest and summaries stay with the run."""
    address = f"file://{tmp_path / 'elsewhere'}"
    store = Store.create(tmp_path / "run", seed=4, blocks_a_shard=1, shards_at=address)
    draw_into(store, TARGET, PROPOSAL, N, engine=Local())
    assert hashes(store) == hashes(whole)
    assert not (tmp_path / "run" / "draws").exists()
    assert len(list((tmp_path / "elsewhere").iterdir())) == len(whole.shards)
    opened = Store.open(tmp_path / "run")
    same(qr.Draws.load(opened), qr.Draws.load(whole))
    curve = qr.tradeoff(opened, stream=True)
    np.testing.assert_array_equal(curve.tvd.value, qr.tradeoff(whole, stream=True).tvd.value)
    assert len(list((tmp_path / "run" / "draws").glob("*.summary"))) == len(whole.shards)
    (tmp_path / "elsewhere" / "shard-00003.parquet").write_bytes(b"x")
    assert Store.open(tmp_path / "run").damaged() == [3]
    (tmp_path / "elsewhere" / ".shard-00001.parquet.1.partial").touch()
    opened.forget([3])
    draw_into(opened, TARGET, PROPOSAL, N)
    assert hashes(opened) == hashes(whole)
    assert len(list((tmp_path / "elsewhere").iterdir())) == len(whole.shards)


def test_an_address_that_cannot_be_used(tmp_path):
    store = Store.create(tmp_path / "run", seed=4, shards_at="nosuch://bucket")
    with pytest.raises(qr.errors.InputError, match="nosuch://bucket"):
        draw_into(store, TARGET, PROPOSAL, 10)


def test_a_location_makes_its_folders_and_tells_its_files_apart(tmp_path):
    place = location_of(tmp_path / "a" / "b")
    sha256 = place.write("x", lambda path: path.write_bytes(b"hello"))
    assert place.content("x") == b"hello"
    assert place.sha256("x") == sha256
    assert place.identity("x")[0] == 5
    (tmp_path / "a" / "b" / ".y.1.partial").write_bytes(b"left")
    place.clean()
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == ["x"]


def test_whether_the_holder_has_ended(tmp_path):
    assert not holder_ended(tmp_path)  # nobody held it
    lock, host = tmp_path / ".lock", socket.gethostname()
    lock.write_text(f"{os.getpid()} on {host}")
    assert not holder_ended(tmp_path)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    lock.write_text(f"{child} on {host}")
    assert holder_ended(tmp_path)
    lock.write_text(f"{child} on elsewhere")
    assert not holder_ended(tmp_path)
    lock.write_text(f"no number on {host}")
    assert not holder_ended(tmp_path)


def test_a_run_is_asked_to_stop(tmp_path):
    assert stop_asked(tmp_path) is None
    ask_to_stop(tmp_path, "enough")
    assert stop_asked(tmp_path) == "enough"
    (tmp_path / "stop").write_text("{")
    assert stop_asked(tmp_path) is not None
    clear_stop(tmp_path)
    clear_stop(tmp_path)
    assert stop_asked(tmp_path) is None
