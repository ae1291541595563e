import json

import pytest

from quasir.cli.watch import as_text
from quasir.runs.watch import Watcher, parse_stop_rule
from quasir.store import Store
from quasir.store.control import ask_to_stop, stop_asked
from tests.cli.helpers import LETTERS, POISSONS, files, quasir, start
from tests.waiting import wait_until

LARGE = POISSONS.replace("draws: 5000", "draws: 500000000")


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
    assert "no process draws any more" in err
    assert stop_asked(run) is None


def test_a_run_is_stopped_when_a_distance_is_guaranteed(tmp_path):
    """The estimate chooses beta for TVD 0.05; 0.055 is guaranteed there after 100,000 draws."""
    (tmp_path / "r.yaml").write_text(LARGE)
    run = tmp_path / "run"
    process = start("draw", tmp_path / "r.yaml", "--out", run)
    try:
        wait_until((run / "manifest.json").exists, process)
        out, err = quasir("watch", run, "--until", "tvd<=0.055", "--every", 0.2, "--json")
        assert "as requested: tvd <= 0.055 is guaranteed (confidence 0.95)" in err
        _, drawing = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "stopped: tvd <= 0.055 is guaranteed" in drawing
    last = json.loads(out.splitlines()[-1])
    assert last["certificate"]["guarantee"]["tvd"] <= 0.055
    assert last["draws"] < last["wanted"]
