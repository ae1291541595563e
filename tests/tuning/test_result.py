"""What a run leaves behind: a model that loads, a log, a figure; and how it goes on."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

import quasir as qr
from quasir.tuning.evaluation import Log, format_row
from tests.text.tiny import every_text
from tests.tuning.exact import dpg, model, noise, starts_with
from tests.waiting import wait_until

SHORT = {"steps": 40, "round_steps": 20, "rate": 1e-2}


def run_in(folder, **options):
    base = model(limit=3)
    target = (base * starts_with("a")).watch(noise(1.0))
    return dpg(target, base, out=folder, **(SHORT | options))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return the folder of a run that has ended, the run, its proposal, and what it printed."""
    folder = tmp_path_factory.mktemp("tuning") / "out"
    run, printed = run_in(folder, progress=True), io.StringIO()
    with contextlib.redirect_stderr(printed):
        tuned = run.run()
    return folder, run, tuned, printed.getvalue().splitlines()


def rows_of(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_the_result_of_a_full_run_loads(finished):
    folder, run, tuned, _ = finished
    loaded = qr.text.CausalLM(str(folder), max_tokens=3, device="cpu")
    texts = every_text(run.base)
    np.testing.assert_allclose(loaded.log_prob(texts), tuned.log_prob(texts), atol=1e-6)
    assert np.exp(tuned.log_prob(texts)).sum() == pytest.approx(1, abs=1e-5)
    draws = qr.draw(run.target, tuned, 1000, seed=1)
    assert (draws.log_p > -np.inf).mean() > 0.9
    names = {file.name for file in folder.iterdir()}
    assert {"model.safetensors", "config.json", "tokenizer.json", "log.jsonl"} <= names
    assert {"learning.png", "tuning.json"} <= names
    assert not names & {"partial", "checkpoint", "log.partial"}
    assert json.loads((folder / "config.json").read_text())["dtype"] == "float16"


def test_the_result_of_an_adapter_loads_on_the_base(tmp_path):
    given = model(limit=3)
    given.model.save_pretrained(tmp_path / "base")
    given.tokenizer.save_pretrained(tmp_path / "base")
    base = qr.text.CausalLM(str(tmp_path / "base"), max_tokens=3, device="cpu")
    out = str(tmp_path / "out")
    tuned = dpg(base * starts_with("a"), base, lora=2, out=out, **SHORT).run()
    loaded = qr.text.CausalLM(str(tmp_path / "base"), adapter=out, max_tokens=3, device="cpu")
    texts = every_text(base)
    np.testing.assert_allclose(loaded.log_prob(texts), tuned.log_prob(texts), atol=1e-5)
    assert np.abs(tuned.log_prob(texts) - base.log_prob(texts)).max() > 0.5
    assert tuned.adapter == out
    files = [file.name for file in (tmp_path / "out").iterdir()]
    assert "adapter_model.safetensors" in files
    assert "model.safetensors" not in files


def test_a_prompt_and_a_temperature_are_kept(tmp_path):
    base = model(limit=3).varied(prompt="b a", temperature=0.8)
    lm = dpg(base * starts_with("a"), base, out=tmp_path / "out", **SHORT).run()
    assert (lm.prompt, lm.warp.temperature, lm.max_tokens) == ("b a", 0.8, 3)
    assert np.exp(lm.log_prob(every_text(base))).sum() == pytest.approx(1, abs=1e-5)
    batch = lm.sample(500, np.random.default_rng(0))
    np.testing.assert_allclose(batch.log_q, lm.log_prob(batch.items), atol=1e-4)


def test_the_log_says_what_happened(finished):
    folder, *_, shown = finished
    rows = rows_of(folder)
    assert [row["step"] for row in rows if row["event"] == "evaluation"] == [10, 20, 30, 40]
    assert rows[0]["event"] == "round"
    for row in rows:
        for name in ("kl", "tvd", "log_z"):
            assert row[name]["low"] <= row[name]["value"] <= row[name]["high"]
            assert row[name]["se"] > 0
        assert row["moments"].keys() == {"possible", "starts with a", "noise"}
        assert row["ess"] > 1
        assert 0 < row["efficiency"] <= 1.5
        assert row["samples_per_second"] > 0
    assert rows[-1]["kl"]["value"] < rows[0]["kl"]["value"]
    assert rows[-1]["draws"] >= 2000
    assert len([line for line in shown if line.startswith("step")]) == len(rows)
    for part in ("step    40", "KL ", "TVD ", "starts with a ", "Z ", "ESS ", "samples/s"):
        assert part in shown[len(rows) - 1], part


def test_the_log_is_that_of_the_exact_values(finished):
    folder, run, *_ = finished
    row = rows_of(folder)[0]
    texts = every_text(run.base)
    fires = np.array([text.text.startswith("a") for text in texts])
    z = np.exp(run.base.log_prob(texts))[fires].sum()
    for name, exact in (("kl", -np.log(z)), ("tvd", 1 - z), ("log_z", np.log(z))):
        assert abs(row[name]["value"] - exact) < 4 * row[name]["se"]
    moment = row["moments"]["starts with a"]
    assert abs(moment["value"] - z) < 4 * moment["se"] + 1e-9


def test_a_line_without_numbers():
    """An estimate that is not finite is said to be unknown."""
    unknown = {"value": None, "se": None, "low": None, "high": None}
    row = {"step": 1, "round": 1, "kl": unknown, "tvd": unknown, "moments": {"x": unknown}}
    row |= {"log_z": {"value": 0.0}, "ess": 3.0, "samples_per_second": 1.0, "best": False}
    assert "KL unknown" in format_row(row)


def test_a_finished_run_is_not_run_again(finished):
    folder, run, first, _ = finished
    before = (folder / "model.safetensors").stat().st_mtime_ns
    again = run.run()
    assert (folder / "model.safetensors").stat().st_mtime_ns == before
    texts = every_text(run.base)
    np.testing.assert_array_equal(first.log_prob(texts), again.log_prob(texts))


def test_a_folder_of_another_run_is_refused(finished):
    with pytest.raises(qr.errors.InputError, match="other options: batch = 32, now 16"):
        run_in(finished[0], batch=16).run()


KILLED = """
import sys, torch
torch.set_num_threads(1)
from tests.tuning.test_result import long_run
long_run(sys.argv[1]).run()
"""


def long_run(folder):
    base = model(limit=3)
    target = base * starts_with("a") * qr.tilt(noise(1.0), 1.0)
    options = {"steps": 140, "round_steps": 40, "rate": 1e-2, "patience": 20}
    return dpg(target, base, out=folder, **options)


def kill_after(folder, lines):
    """Start the run in a process, and kill it once its log has so many lines."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(folder)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    log = folder / "log.jsonl"
    wait_until(lambda: log.is_file() and len(log.read_text().splitlines()) >= lines, process)
    process.kill()
    _, error = process.communicate()
    assert process.returncode == -signal.SIGKILL, error.decode()


def test_killed_and_started_again_it_ends_as_if_it_had_not_been(tmp_path, monkeypatch):
    """Killed in the second round, stopped again later; the weights are the same to the bit."""
    intact, broken = tmp_path / "intact", tmp_path / "broken"
    undisturbed = long_run(intact).run()
    kill_after(broken, 6)
    assert not (broken / "model.safetensors").exists()
    write = Log.write

    def stop_at_12(log, *given, **facts):
        write(log, *given, **facts)
        if len(log.rows) == 12:
            raise KeyboardInterrupt

    monkeypatch.setattr(Log, "write", stop_at_12)
    with pytest.raises(KeyboardInterrupt):
        long_run(broken).run()
    monkeypatch.undo()
    assert not (broken / "model.safetensors").exists()
    resumed = long_run(broken).run()
    ours, theirs = resumed.model.state_dict(), undisturbed.model.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    ours, theirs = (
        [{k: v for k, v in row.items() if "second" not in k} for row in rows_of(folder)]
        for folder in (broken, intact)
    )
    assert ours == theirs
    assert len(ours) > 16
