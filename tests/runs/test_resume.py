"""A run that is killed, robbed of its disk or run twice ends in the draws it would have had."""

import json
import os
import resource

import pytest
import yaml

import quasir as qr
from quasir.engines import Local, Ray
from quasir.runs.active_run import begin, prepare
from quasir.runs.pipeline import draw_all
from quasir.store.store import open_store
from tests.cli.helpers import POISSONS, quasir, start
from tests.contexts.recipes import CONTEXTS, RECIPE
from tests.waiting import wait_until

LARGE = POISSONS.replace("draws: 5000", "draws: 2000000")


def facts(folder):
    """Return the rounds of a run, and the hashes of its shards."""
    store = open_store(folder)
    return store.manifest.rounds, {number: shard.sha256 for number, shard in store.shards.items()}


def shards_in(folder):
    """Return how many shards the manifest vouches for, as a process goes on writing it."""
    try:
        return len(json.loads((folder / "manifest.json").read_text())["shards"])
    except FileNotFoundError:
        return 0


@pytest.fixture(scope="module", params=["one", "contexts"])
def whole(request, tmp_path_factory):
    """Return the arguments that draw a run, and a folder of one that was never stopped."""
    folder = tmp_path_factory.mktemp(request.param)
    asked = ["draw", folder / "r.yaml"]
    (folder / "r.yaml").write_text(LARGE)
    if request.param == "contexts":
        (folder / "r.yaml").write_text(yaml.safe_dump(RECIPE | {"draws": 2_000_000}))
        (folder / "c.jsonl").write_text("".join(json.dumps(fields) + "\n" for fields in CONTEXTS))
        asked += ["--contexts", folder / "c.jsonl"]
    quasir(*asked, "--out", folder / "run")
    return asked, folder / "run"


def test_killed_again_and_again_it_ends_in_the_same_draws(whole, tmp_path):
    (asked, uninterrupted), run, kills = whole, tmp_path / "run", 0
    for wanted in (1, 3, 5):
        process = start(*asked, "--out", run)
        wait_until(lambda wanted=wanted: shards_in(run) >= wanted, process)
        kills += process.poll() is None
        process.kill()
        process.communicate()
        there, expected = facts(run)[1], facts(uninterrupted)[1]
        # At most the shard in hand is lost: what the manifest names is whole.
        assert not open_store(run).damaged()
        assert there == {number: expected[number] for number in there}
    assert kills == 3
    # The run has its recipe and its contexts, and needs no file of them.
    _, err = quasir("draw", run)
    assert "going on from" in err
    assert facts(run) == facts(uninterrupted)
    assert len(facts(run)[1]) >= 8
    left = {path.name for path in (run / "draws").iterdir()}
    assert left == {f"shard-{i:05d}.parquet" for i in facts(run)[1]}


def test_two_workers_draw_the_same(whole, tmp_path):
    asked, uninterrupted = whole
    quasir(*asked, "--out", tmp_path / "run", "--workers", 2, apart=True)
    assert facts(tmp_path / "run") == facts(uninterrupted)


def test_no_room_on_the_disk(tmp_path):
    """A limit on the size of files is the disk that is full: the system refuses the write."""
    (tmp_path / "r.yaml").write_text(LARGE.replace("2000000", "300000"))
    run = tmp_path / "run"

    def small():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))

    _, err = quasir("draw", tmp_path / "r.yaml", "--out", run, code=1, preexec_fn=small)
    assert "shard-00000.parquet could not be written" in err
    assert "make room" in err
    assert "Traceback" not in err
    assert facts(run)[1] == {}
    assert not list((run / "draws").iterdir())
    quasir("draw", tmp_path / "r.yaml", "--out", run)
    quasir("draw", tmp_path / "r.yaml", "--out", tmp_path / "whole")
    assert facts(run) == facts(tmp_path / "whole")


def test_an_edited_shard_is_named_and_redrawn_on_request(tmp_path):
    (tmp_path / "r.yaml").write_text(LARGE.replace("2000000", "400000"))
    run = tmp_path / "run"
    quasir("draw", tmp_path / "r.yaml", "--out", run)
    before = facts(run)
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
    assert facts(run) == before
    assert len(qr.Draws.load(run)) == 400000


def small(folder):
    """Begin or resume a small run over contexts."""
    return begin(prepare(RECIPE, folder, contexts=CONTEXTS))


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """Return a small run over contexts that was never stopped, in shards of a block."""
    monkeypatch.setattr("quasir.runs.active_run.BLOCKS_A_SHARD", 1)
    draw_all(small(tmp_path / "whole"))
    return facts(tmp_path / "whole")


class Killed(BaseException):
    """Nothing catches it, as nothing catches a kill."""


def test_killed_at_any_write(drawn, tmp_path, monkeypatch):
    real, writes = os.replace, 0

    def counted(limit):
        def replace(*names):
            nonlocal writes
            writes += 1
            if writes == limit:
                raise Killed
            real(*names)

        return replace

    limit, killed, ended = 1, 0, False
    while not ended:
        run, writes = tmp_path / f"run{limit}", 0
        monkeypatch.setattr("os.replace", counted(limit))
        try:
            draw_all(small(run))
            ended = True
        except Killed:
            killed += 1
        monkeypatch.setattr("os.replace", real)
        draw_all(small(run))
        assert facts(run) == drawn, f"killed at write {limit}"
        limit += 4
    assert killed >= 8


def test_a_run_asked_to_stop_goes_on(drawn, tmp_path):
    active = small(tmp_path / "run")
    (tmp_path / "run" / "stop").write_text('{"why": "enough"}')

    class Stopping(Local):
        def map(self, make, tasks, stop=lambda: None, here=None):
            for i, task in enumerate(tasks):
                if i == 2:
                    (active.folder / "stop").write_text('{"why": "enough"}')
                if stop() is not None:
                    return
                yield task, here(task)

    draw_all(active, engine=Stopping(1))
    assert active.store.manifest.stopped == "enough"
    assert len(active.store.shards) == 2
    draw_all(small(tmp_path / "run"))
    assert facts(tmp_path / "run") == drawn


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_ray_draws_the_same(drawn, tmp_path):
    pytest.importorskip("ray", reason="the extra ray is not installed")
    draw_all(small(tmp_path / "run"), engine=Ray(workers=2))
    assert facts(tmp_path / "run") == drawn
