"""A run is watched without being touched, and stopped when it is known well enough."""

import json
from dataclasses import replace

import numpy as np
import pytest

import quasir as qr
from quasir.cli.watch import Rule, Watcher, parse_stop_rule, speed_of
from quasir.runs.draw_shards import draw_into
from quasir.store import Shard, Store
from quasir.store.control import ask_to_stop, stop_asked
from tests.cli.helpers import LETTERS, POISSONS, files, quasir, start
from tests.waiting import wait_until

BASE = qr.Table({"a": 0.5, "b": 0.3, "c": 0.15, "d": 0.05})
FLAT = qr.Table({"a": 1, "b": 1, "c": 1, "d": 1})
LARGE = POISSONS.replace("draws: 5000", "draws: 500000000")


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


def test_the_speed_is_that_of_all_workers(tmp_path):
    store = Store.create(tmp_path / "run", seed=1, blocks_a_shard=1)
    assert speed_of(store) is None
    store.shards = {i: Shard(1024, "x", 2.0) for i in range(40)} | {0: Shard(1024, "x", 900.0)}
    assert speed_of(store) == 512  # the first shards no longer count
    store.change(workers=3)
    assert speed_of(store) == 3 * 512


def test_a_precision_is_read():
    assert parse_stop_rule("tvd_se=0.005") == Rule("error", "tvd", 0.005)
    assert parse_stop_rule("ess=1e3") == Rule("ess", "ess", 1000.0)
    for wrong in "tvd=0.1 tvd<= tvd<=-1 tvd>=1 ess<=3 tvd_se= tvd_se=-1 tvd_se=e ess=0".split():
        with pytest.raises(qr.errors.InputError, match="nothing to stop at"):
            parse_stop_rule(wrong)
    curve = qr.tradeoff(qr.draw(BASE, FLAT, 2000, seed=0))
    cert = curve.at(beta=1)
    with pytest.raises(qr.errors.InputError, match="no estimate 'size'"):
        parse_stop_rule("size_se=1").reached(cert, curve)
    assert not parse_stop_rule("ess=1e9").reached(cert, curve)
    assert parse_stop_rule("ess=10").reached(cert, curve)
    assert Rule("error", "tvd", cert.tvd.se * 1.01).reached(cert, curve)
    assert not Rule("error", "tvd", cert.tvd.se * 0.99).reached(cert, curve)
    # Past every ratio the draws cannot tell, and then nothing is reached.
    beyond = curve.at(beta=100)
    assert np.isnan(beyond.tvd.se)
    assert not Rule("error", "tvd", 10.0).reached(beyond, curve)


def test_a_guarantee_is_reached_where_it_holds_at_the_chosen_beta():
    she = qr.Feature("she", lambda x: x == "c", boolean=True)
    curve = qr.tradeoff(qr.draw(BASE * qr.tilt(she, 2.0), BASE, 20_000, seed=0))
    assert parse_stop_rule("tvd <= 0.1") == Rule("most", "tvd", 0.1)
    least = curve.at(tvd=0.1, confidence=0.95)
    assert parse_stop_rule("tvd<=0.1").reached(least, curve)
    assert parse_stop_rule("tvd<=0.1").reached(curve.at(log_beta=least.log_beta + 0.1), curve)
    below = curve.at(log_beta=least.log_beta - 0.05)
    assert not parse_stop_rule("tvd<=0.1").reached(below, curve)
    # A higher confidence is reached later.
    sure = curve.at(log_beta=least.log_beta, confidence=0.999)
    assert not parse_stop_rule("tvd<=0.1").reached(sure, curve)
    said = parse_stop_rule("tvd<=0.1").reached(least, curve)
    assert "tvd <= 0.1 is guaranteed (confidence 0.95)" in said
    # Where nothing can be guaranteed, nothing is reached.
    number = qr.Feature("number", lambda x: float(x == "c"))
    bare = qr.tradeoff(qr.draw(BASE * qr.tilt(number, 2.0), BASE, 20_000, seed=0))
    assert not parse_stop_rule("tvd<=0.5").reached(bare.at(beta=100), bare)


class Staff:
    """An engine of this process that says who draws each shard, and hears what is counted."""

    def __init__(self, store, staff):
        self.store, self.staff, self.counted = store, staff, []

    def map(self, work, tasks, stop, here):
        for task, (machine, process) in zip(tasks, self.staff, strict=True):
            yield task, replace(here(task), machine=machine, process=process)
            manifest = self.store.manifest
            self.counted.append((manifest.workers, manifest.machines))


def test_a_worker_that_has_stopped_is_not_counted(tmp_path):
    store = Store.create(tmp_path / "run", seed=1, blocks_a_shard=1)
    staff = Staff(store, [("a", 1), *[("b", 2 + i % 2) for i in range(14)]])
    draw_into(store, BASE, FLAT, 15 * store.shard_size, engine=staff)
    assert staff.counted[:4] == [(1, 1), (2, 2), (3, 2), (3, 2)]
    assert staff.counted[-1] == (2, 1)


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
    assert str(glance).startswith(str(tmp_path))
    assert glance.reached([parse_stop_rule("ess=5")]) is not None
    assert glance.reached([parse_stop_rule("ess=5"), parse_stop_rule("ess=1e9")]) is None
    assert glance.reached([]) is None
    _, err = quasir("watch", tmp_path / "run", "--until", "nonsense", code=2)
    assert "nothing to stop at" in err


def test_a_run_is_stopped_when_it_is_known_well_enough(tmp_path):
    (tmp_path / "r.yaml").write_text(LARGE)
    run = tmp_path / "run"
    process = start("draw", tmp_path / "r.yaml", "--out", run)
    try:
        wait_until((run / "manifest.json").exists, process)
        out, err = quasir("watch", run, "--until", "tvd_se=0.0008", "--every", 0.2, "--json")
        assert "as requested: tvd is" in err
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
    wait_until((run / "manifest.json").exists, process)
    process.kill()
    process.communicate()
    _, err = quasir("watch", run, "--every", 0.1, "--until", "tvd_se=1e-9")
    assert "the run has stopped; resume with" in err
    assert stop_asked(run) is None
