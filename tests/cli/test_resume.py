"""A run that is killed, robbed of its disk or run twice ends in the draws it would have had."""

import json
import resource
import signal
from functools import partial

import pytest

import quasir as qr
from quasir.store import Store, locked
from tests.cli.helpers import POISSONS, quasir, start
from tests.waiting import wait_until

LARGE = POISSONS.replace("draws: 5000", "draws: 2000000")


def hashes(folder):
    return {number: shard.sha256 for number, shard in Store.open(folder).shards.items()}


def shards_in(folder):
    """Return how many shards the manifest vouches for, as a process goes on writing it."""
    try:
        return len(json.loads((folder / "manifest.json").read_text())["shards"])
    except FileNotFoundError:
        return 0


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return a run that was never stopped."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "r.yaml").write_text(LARGE)
    quasir("draw", folder / "r.yaml", "--out", folder / "run")
    return folder / "run"


def test_killed_again_and_again_it_ends_in_the_same_draws(whole, tmp_path):
    (tmp_path / "r.yaml").write_text(LARGE)
    run, kills = tmp_path / "run", 0
    for wanted in (1, 3, 5):
        process = start("draw", tmp_path / "r.yaml", "--out", run)
        wait_until(lambda wanted=wanted: shards_in(run) >= wanted, process)
        kills += process.poll() is None
        process.kill()
        process.communicate()
        there = hashes(run)
        # At most the shard in hand is lost: what the manifest names is whole.
        assert not Store.open(run).damaged()
        assert there == {number: h for number, h in hashes(whole).items() if number in there}
    assert kills == 3
    _, err = quasir("draw", tmp_path / "r.yaml", "--out", run)
    assert "going on from" in err
    assert hashes(run) == hashes(whole)
    assert len(hashes(run)) == 8
    left = {path.name for path in (run / "draws").iterdir()}
    assert left == {f"shard-{i:05d}.parquet" for i in range(8)}


def test_stopped_by_hand(tmp_path):
    (tmp_path / "r.yaml").write_text(LARGE.replace("2000000", "200000000"))
    # Tests that are run in the background are deaf to the keyboard, and so would be their children.
    listen = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = start("draw", tmp_path / "r.yaml", "--out", tmp_path / "run", preexec_fn=listen)
    wait_until(lambda: shards_in(tmp_path / "run") >= 1, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on" in err
    assert not Store.open(tmp_path / "run").damaged()


def test_no_room_on_the_disk(whole, tmp_path):
    """A limit on the size of files is the disk that is full: the system refuses the write."""
    (tmp_path / "r.yaml").write_text(LARGE)
    run = tmp_path / "run"

    def small():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))

    _, err = quasir("draw", tmp_path / "r.yaml", "--out", run, code=1, preexec_fn=small)
    assert "shard-00000.parquet could not be written" in err
    assert "make room" in err
    assert "Traceback" not in err
    assert hashes(run) == {}
    assert not list((run / "draws").iterdir())
    quasir("draw", tmp_path / "r.yaml", "--out", run)
    assert hashes(run) == hashes(whole)


def test_two_processes_on_one_run(tmp_path):
    (tmp_path / "r.yaml").write_text(POISSONS)
    with locked(tmp_path / "run"):
        _, err = quasir("draw", tmp_path / "r.yaml", "--out", tmp_path / "run", code=1)
    assert "is in use by process" in err
    quasir("draw", tmp_path / "r.yaml", "--out", tmp_path / "run")


def test_an_edited_shard_is_named_and_redrawn_on_request(tmp_path):
    (tmp_path / "r.yaml").write_text(LARGE.replace("2000000", "400000"))
    run = tmp_path / "run"
    quasir("draw", tmp_path / "r.yaml", "--out", run)
    before = hashes(run)
    shard = run / "draws" / "shard-00001.parquet"
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    for command in ("draw", "tradeoff", "sample", "report"):
        _, err = quasir(command, run, code=1)
        assert "shard-00001.parquet" in err
        assert "--repair" in err
    out, _ = quasir("draw", run, "--repair", "--json")
    assert json.loads(out)["drawn"] == 400000 - 262144
    assert hashes(run) == before
    assert len(qr.Draws.load(run)) == 400000
