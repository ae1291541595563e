"""A run over contexts that is killed anywhere, or drawn by others, ends in the same draws."""

import json
import os

import pytest
import yaml

import quasir as qr
from quasir.engines import Local, Ray
from quasir.recipes.placeholders import read_contexts
from quasir.runs.contexts.pipeline import draw_contexts
from quasir.runs.pipeline import begin_contexts
from quasir.store.context_store import ContextStore
from tests.cli.helpers import quasir, start
from tests.contexts.recipes import CONTEXTS, RECIPE
from tests.waiting import wait_until

LARGE = RECIPE | {"draws": 2_000_000}


def facts(folder):
    store = ContextStore.open(folder)
    return store.rounds, {number: shard.sha256 for number, shard in store.shards.items()}


def shards_in(folder):
    try:
        return len(json.loads((folder / "manifest.json").read_text())["shards"])
    except FileNotFoundError:
        return 0


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    (folder / "r.yaml").write_text(yaml.safe_dump(LARGE))
    (folder / "c.jsonl").write_text("".join(json.dumps(fields) + "\n" for fields in CONTEXTS))
    return folder


@pytest.fixture(scope="module")
def whole(files):
    """Return a run that was never stopped."""
    quasir("draw", files / "r.yaml", "--contexts", files / "c.jsonl", "--out", files / "whole")
    return files / "whole"


def test_killed_again_and_again_it_ends_in_the_same_draws(files, whole, tmp_path):
    run, kills = tmp_path / "run", 0
    asked = ("draw", files / "r.yaml", "--contexts", files / "c.jsonl", "--out", run)
    for wanted in (1, 4, 7):
        process = start(*asked)
        wait_until(lambda wanted=wanted: shards_in(run) >= wanted, process)
        kills += process.poll() is None
        process.kill()
        process.communicate()
        assert not ContextStore.open(run).damaged()
    assert kills == 3
    # A run that has its contexts needs no file of them.
    _, err = quasir("draw", run)
    assert "going on from" in err
    assert facts(run) == facts(whole)
    assert len(facts(run)[0]) == 3


@pytest.mark.parametrize("workers", [2, 3])
def test_any_number_of_workers_draws_the_same(files, whole, tmp_path, workers):
    asked = ("draw", files / "r.yaml", "--contexts", files / "c.jsonl", "--out", tmp_path / "run")
    quasir(*asked, "--workers", workers)
    assert facts(tmp_path / "run") == facts(whole)


def small(folder, contexts=None):
    return begin_contexts(RECIPE, contexts or read_contexts(CONTEXTS), folder)


@pytest.fixture
def shards_of_a_block(monkeypatch):
    monkeypatch.setattr("quasir.runs.contexts.begun.BLOCKS_A_SHARD", 1)


class Killed(BaseException):
    """Nothing catches it, as nothing catches a kill."""


@pytest.mark.usefixtures("shards_of_a_block")
def test_killed_at_any_write(tmp_path, monkeypatch):
    draw_contexts(small(tmp_path / "whole"))
    rounds, hashes = facts(tmp_path / "whole")
    real, writes = os.replace, 0

    def counted(limit):
        def replace(*names):
            nonlocal writes
            writes += 1
            if writes == limit:
                raise Killed
            real(*names)

        return replace

    limit, killed = 1, 0
    while True:
        run, writes = tmp_path / f"run{limit}", 0
        monkeypatch.setattr("os.replace", counted(limit))
        try:
            draw_contexts(small(run))
            ended = True
        except Killed:
            ended, killed = False, killed + 1
        monkeypatch.setattr("os.replace", real)
        draw_contexts(small(run))
        assert facts(run) == (rounds, hashes), f"killed at write {limit}"
        if ended:
            break
        limit += 4
    assert killed >= 8


@pytest.mark.usefixtures("shards_of_a_block")
def test_an_engine_of_this_process_and_none_draw_the_same(tmp_path):
    draw_contexts(small(tmp_path / "one"))
    draw_contexts(small(tmp_path / "other"), engine=Local(1))
    assert facts(tmp_path / "one") == facts(tmp_path / "other")


@pytest.mark.usefixtures("shards_of_a_block")
def test_damaged_shards_are_named_and_drawn_again(tmp_path):
    draw_contexts(small(tmp_path / "run"))
    before = facts(tmp_path / "run")
    path = tmp_path / "run" / "draws" / "shard-00003.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(qr.errors.StoreError, match="shard-00003"):
        draw_contexts(small(tmp_path / "run"))
    draw_contexts(small(tmp_path / "run"), repair=True)
    assert facts(tmp_path / "run") == before


@pytest.mark.usefixtures("shards_of_a_block")
def test_a_run_asked_to_stop_goes_on(tmp_path):
    draw_contexts(small(tmp_path / "whole"))
    begun = small(tmp_path / "run")
    (tmp_path / "run" / "stop").write_text('{"why": "enough"}')

    class Stopping(Local):
        def map(self, make, tasks, stop=lambda: None, here=None):
            for i, task in enumerate(tasks):
                if i == 2:
                    (begun.folder / "stop").write_text('{"why": "enough"}')
                if stop() is not None:
                    return
                yield task, here(task)

    draw_contexts(begun, engine=Stopping(1))
    assert begun.store.manifest.stopped == "enough"
    assert len(begun.store.shards) == 2
    draw_contexts(small(tmp_path / "run"))
    assert facts(tmp_path / "run") == facts(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_ray_draws_the_same(tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="the extra ray is not installed")
    monkeypatch.setattr("quasir.runs.contexts.begun.BLOCKS_A_SHARD", 1)
    draw_contexts(small(tmp_path / "whole"))
    draw_contexts(small(tmp_path / "run"), engine=Ray(workers=2))
    assert facts(tmp_path / "run") == facts(tmp_path / "whole")
