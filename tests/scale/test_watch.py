"""A run is watched without being touched, and stopped when it is known well enough."""

import json
import time

import numpy as np
import pytest

import quasir as qr
from quasir.cli.watch import as_text, reached
from quasir.runs.draw_shards import _Workers, draw_into
from quasir.runs.watcher import Precision, Watcher, speed_of
from quasir.store import Shard, Store
from quasir.store.control import ask_to_stop, stop_asked
from tests.cli.helpers import LETTERS, POISSONS, quasir, start

BASE = qr.Table({"a": 0.5, "b": 0.3, "c": 0.15, "d": 0.05})
FLAT = qr.Table({"a": 1, "b": 1, "c": 1, "d": 1})
LARGE = POISSONS.replace("draws: 5000", "draws: 500000000")


def files(folder):
    return {path.name: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_looks_add_up(tmp_path):
    """Shard by shard, what is seen is the trade-off of the draws that are there."""
    store = Store.create(tmp_path / "run", seed=1, blocks_a_shard=1)
    watcher = Watcher(tmp_path / "run")
    assert watcher.look().draws == 0
    assert watcher.look().curve is None
    for n in (1000, 1024, 3000, 9000):
        draw_into(store, BASE, FLAT, n)
        before = files(tmp_path)
        glance = watcher.look()
        assert files(tmp_path) == before
        assert glance.draws == n
        whole = qr.tradeoff(qr.Draws.load(store), log_betas=glance.curve.log_betas)
        np.testing.assert_allclose(glance.curve.tvd.value, whole.tvd.value, rtol=1e-9, atol=1e-13)
        np.testing.assert_allclose(glance.curve.kl.se, whole.kl.se, rtol=1e-6, atol=1e-9)
        assert glance.wanted is None  # there is no recipe
    # A shard that is drawn again, with others, is looked at again.
    store.forget([2])
    assert watcher.look().draws == 2048
    draw_into(store, BASE, FLAT, 9000)
    assert watcher.look().draws == 9000


def test_a_gap_is_not_looked_past(tmp_path):
    store = Store.create(tmp_path / "run", seed=1, blocks_a_shard=1)
    draw_into(store, BASE, FLAT, 5120)
    store.forget([1])
    assert Watcher(tmp_path / "run").look().draws == 1024


def test_the_speed_is_that_of_all_workers(tmp_path):
    store = Store.create(tmp_path / "run", seed=1, blocks_a_shard=1)
    assert speed_of(store) is None
    store.shards = {i: Shard(1024, "x", 2.0) for i in range(40)} | {0: Shard(1024, "x", 900.0)}
    assert speed_of(store) == 512  # the first shards no longer count
    store.change(workers=3)
    assert speed_of(store) == 3 * 512


def test_a_precision_is_read():
    assert Precision.parse("tvd_se=0.005") == Precision("tvd", most=0.005)
    assert Precision.parse("ess=1e3") == Precision("ess", least_ess=1000.0)
    for wrong in ("tvd=0.1", "tvd_se=", "tvd_se=-1", "tvd_se=e", "ess=0", ""):
        with pytest.raises(qr.InputError, match="no precision"):
            Precision.parse(wrong)
    cert = qr.tradeoff(qr.draw(BASE, FLAT, 2000, seed=0)).at(beta=1)
    with pytest.raises(qr.InputError, match="no estimate 'size'"):
        Precision.parse("size_se=1").reached(cert)
    assert not Precision.parse("ess=1e9").reached(cert)
    assert Precision.parse("ess=10").reached(cert)
    assert Precision("tvd", most=cert.tvd.se * 1.01).reached(cert)
    assert not Precision("tvd", most=cert.tvd.se * 0.99).reached(cert)
    # Past every ratio the draws cannot tell, and then nothing is reached.
    beyond = qr.tradeoff(qr.draw(BASE, FLAT, 2000, seed=0)).at(beta=100)
    assert np.isnan(beyond.tvd.se)
    assert not Precision("tvd", most=10.0).reached(beyond)


def test_the_command_looks_once(tmp_path):
    (tmp_path / "r.yaml").write_text(LETTERS)
    quasir("draw", tmp_path / "r.yaml", "--out", tmp_path / "run", "--draws", 2000)
    before = files(tmp_path)
    out, _ = quasir("watch", tmp_path / "run", "--once", "--json")
    told = json.loads(out)
    assert told["draws"] == 2000
    assert told["wanted"] == 2000
    assert told["workers"] == 1
    assert told["draws_per_second"] > 0
    assert told["certificate"]["moments"]["vowel"]["value"] == pytest.approx(0.5, abs=0.1)
    text, err = quasir("watch", tmp_path / "run")  # complete, so it ends by itself
    assert "2,000 of 2,000 draws" in text
    assert "mean of vowel" in text
    assert "all draws are there" in err
    assert max(map(len, text.replace(str(tmp_path), "").splitlines())) <= 80
    assert files(tmp_path) == before
    glance = Watcher(tmp_path / "run").look()
    assert as_text(glance).startswith(str(tmp_path))
    assert reached(glance, [Precision.parse("ess=5")]) is not None
    assert reached(glance, [Precision.parse("ess=5"), Precision.parse("ess=1e9")]) is None
    assert reached(glance, []) is None
    _, err = quasir("watch", tmp_path / "run", "--until", "nonsense", code=1)
    assert "no precision" in err


def test_a_run_is_stopped_when_it_is_known_well_enough(tmp_path):
    (tmp_path / "r.yaml").write_text(LARGE)
    run = tmp_path / "run"
    process = start("draw", tmp_path / "r.yaml", "--out", run)
    try:
        while not (run / "manifest.json").exists():
            assert process.poll() is None
            time.sleep(0.01)
        out, err = quasir("watch", run, "--until", "tvd_se=0.0008", "--every", 0.2, "--json")
        assert "as wished: tvd is" in err
        _, drawing = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "stopped: tvd is" in drawing
    last = json.loads(out.splitlines()[-1])
    assert last["certificate"]["tvd"]["se"] <= 0.0008
    assert last["wanted"] == 500_000_000 > last["draws"] >= 262_144
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["stopped"].startswith("tvd is")
    assert stop_asked(run) is None
    assert not Store.open(run).damaged()
    # The same command goes on, and what was asked before does not stop it again.
    ask_to_stop(run, "from before")
    there = len(Store.open(run))
    out, _ = quasir("draw", run, "--draws", there + 1000, "--json")
    assert json.loads(out)["drawn"] == 1000
    assert "stopped" not in json.loads((run / "manifest.json").read_text())


def test_a_watch_ends_with_the_process_that_draws(tmp_path):
    (tmp_path / "r.yaml").write_text(LARGE)
    run = tmp_path / "run"
    process = start("draw", tmp_path / "r.yaml", "--out", run)
    while not (run / "manifest.json").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.communicate()
    _, err = quasir("watch", run, "--every", 0.1, "--until", "tvd_se=1e-9")
    assert "no process draws any more" in err
    assert stop_asked(run) is None


def test_a_worker_that_has_stopped_is_not_counted():
    workers = _Workers()
    assert workers.after("a", 1) == {"workers": 1, "machines": 1}
    assert [workers.after("b", 2 + i % 2)["workers"] for i in range(2)] == [2, 3]
    counted = [workers.after("b", 2 + i % 2) for i in range(12)]
    assert counted[0] == {"workers": 3, "machines": 2}
    assert counted[-1] == {"workers": 2, "machines": 1}
