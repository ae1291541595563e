"""What a run leaves behind: a model that loads, a log, a figure; and how it goes on."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

import quasir as qr
from quasir.tuning.evaluation import format_row
from tests.text.tiny import every_text
from tests.tuning.exact import QUIET, model, noise, starts_with
from tests.waiting import wait_until

SMALL = {"steps": 40, "every": 10, "round_steps": 20, "batch": 32, "draws": 1000, "rate": 1e-2}


def tuned_in(folder, **options):
    base = model(limit=3)
    target = (base * starts_with("a")).watch(noise(1.0))
    return base, target, qr.tuning.DPG(target, base, out=folder, **SMALL, **QUIET, **options)


def rows_of(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_the_result_of_a_full_run_loads(tmp_path):
    base, target, dpg = tuned_in(tmp_path / "out")
    tuned = dpg.run()
    loaded = qr.text.CausalLM(str(tmp_path / "out"), max_tokens=3, device="cpu")
    texts = every_text(base)
    np.testing.assert_allclose(loaded.log_prob(texts), tuned.log_prob(texts), atol=1e-6)
    assert np.exp(tuned.log_prob(texts)).sum() == pytest.approx(1, abs=1e-5)
    draws = qr.draw(target, tuned, 1000, seed=1)
    assert (draws.log_p > -np.inf).mean() > 0.9
    names = {file.name for file in (tmp_path / "out").iterdir()}
    assert {"model.safetensors", "config.json", "tokenizer.json", "log.jsonl"} <= names
    assert {"learning.png", "tuning.json"} <= names
    assert not names & {"partial", "checkpoint", "log.partial"}
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["dtype"] == "float16"


def test_the_result_of_an_adapter_loads_on_the_base(tmp_path):
    whole = model(limit=3)
    whole.model.save_pretrained(tmp_path / "base")
    whole.tokenizer.save_pretrained(tmp_path / "base")
    base = qr.text.CausalLM(str(tmp_path / "base"), max_tokens=3, device="cpu")
    out = str(tmp_path / "out")
    tuned = qr.tuning.DPG(base * starts_with("a"), base, lora=2, out=out, **SMALL, **QUIET).run()
    loaded = qr.text.CausalLM(str(tmp_path / "base"), adapter=out, max_tokens=3, device="cpu")
    texts = every_text(base)
    np.testing.assert_allclose(loaded.log_prob(texts), tuned.log_prob(texts), atol=1e-5)
    assert np.abs(tuned.log_prob(texts) - base.log_prob(texts)).max() > 0.5
    assert tuned.adapter == out
    files = [file.name for file in (tmp_path / "out").iterdir()]
    assert "adapter_model.safetensors" in files
    assert "model.safetensors" not in files


def test_a_prompt_and_a_temperature_are_kept(tmp_path):
    plain = model(limit=3)
    base = qr.text.CausalLM(
        model=plain.model, tokenizer=plain.tokenizer, max_tokens=3, prompt="b a", temperature=0.8
    )
    tuned = qr.tuning.DPG(base * starts_with("a"), base, out=tmp_path / "out", **SMALL, **QUIET)
    lm = tuned.run()
    assert (lm.prompt, lm.warp.temperature, lm.max_tokens) == ("b a", 0.8, 3)
    texts = every_text(base)
    assert np.exp(lm.log_prob(texts)).sum() == pytest.approx(1, abs=1e-5)
    batch = lm.sample(500, np.random.default_rng(0))
    np.testing.assert_allclose(batch.log_q, lm.log_prob(batch.items), atol=1e-4)


def test_the_log_says_what_happened(tmp_path, capsys):
    base = model(limit=3)
    target = (base * starts_with("a")).watch(noise(1.0))
    qr.tuning.DPG(target, base, out=tmp_path / "out", **SMALL).run()
    rows = rows_of(tmp_path / "out")
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
        assert row["clipped"] == 0
    assert rows[-1]["kl"]["value"] < rows[0]["kl"]["value"]
    assert rows[-1]["draws"] >= 2000
    shown = capsys.readouterr().err.splitlines()
    assert len([line for line in shown if line.startswith("step")]) == len(rows)
    for part in ("step    40", "KL ", "TVD ", "starts with a ", "Z ", "ESS ", "samples/s"):
        assert part in shown[len(rows) - 1], part


def test_the_log_is_that_of_the_exact_values(tmp_path):
    base, _, dpg = tuned_in(tmp_path / "out")
    dpg.run()
    row = rows_of(tmp_path / "out")[0]
    texts = every_text(base)
    a = np.exp(base.log_prob(texts))
    fires = np.array([text.text.startswith("a") for text in texts])
    z = a[fires].sum()
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


def test_a_finished_run_is_not_run_again(tmp_path):
    base, _, dpg = tuned_in(tmp_path / "out")
    first = dpg.run()
    before = (tmp_path / "out" / "model.safetensors").stat().st_mtime_ns
    again = dpg.run()
    assert (tmp_path / "out" / "model.safetensors").stat().st_mtime_ns == before
    texts = every_text(base)
    np.testing.assert_array_equal(first.log_prob(texts), again.log_prob(texts))


def test_a_folder_of_another_run_is_refused(tmp_path):
    base, target, dpg = tuned_in(tmp_path / "out")
    dpg.run()
    other = qr.tuning.DPG(target, base, out=tmp_path / "out", **(SMALL | {"batch": 16}), **QUIET)
    with pytest.raises(qr.errors.InputError, match="other options: batch = 32, now 16"):
        other.run()


def test_tensorboard_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    *_, dpg = tuned_in(tmp_path / "out", tensorboard=True)
    with pytest.raises(qr.errors.InputError, match="pip install tensorboard"):
        dpg.run()


def test_tensorboard_is_written(tmp_path, monkeypatch):
    written = []

    class Writer:
        def __init__(self, folder):
            self.folder = folder

        def add_scalar(self, name, value, step):
            written.append((name, value, step))

        def flush(self):
            pass

    module = type(sys)("tensorboard")
    module.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    *_, dpg = tuned_in(tmp_path / "out", tensorboard=True)
    dpg.run()
    rows = rows_of(tmp_path / "out")
    kls = [value for name, value, step in written if name == "kl"]
    assert kls == [row["kl"]["value"] for row in rows]


KILLED = """
import sys, torch
torch.set_num_threads(1)
from tests.tuning.test_result import long_run
long_run(sys.argv[1]).run()
"""


def long_run(folder):
    base = model(limit=3)
    target = base * starts_with("a") * qr.tilt(noise(1.0), 1.0)
    options = {
        "dropout": 0.1,
        "steps": 140,
        "every": 10,
        "round_steps": 40,
        "batch": 32,
        "draws": 1000,
    }
    return qr.tuning.DPG(target, base, out=folder, rate=1e-2, patience=20, **options, **QUIET)


def started(folder):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", KILLED, str(folder)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def kill_after(folder, lines):
    """Start the run, and kill it once its log has so many lines."""
    process, log = started(folder), folder / "log.jsonl"
    wait_until(lambda: log.is_file() and len(log.read_text().splitlines()) >= lines, process)
    process.kill()
    _, error = process.communicate()
    assert process.returncode == -signal.SIGKILL, error.decode()


def test_killed_and_started_again_it_ends_as_if_it_had_not_been(tmp_path):
    """Killed for good in the second round, and again later; the weights are the same to the bit."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    undisturbed = long_run(whole).run()
    kill_after(broken, 6)
    assert not (broken / "model.safetensors").exists()
    kill_after(broken, 12)
    assert not (broken / "model.safetensors").exists()
    resumed = long_run(broken).run()
    ours, theirs = resumed.model.state_dict(), undisturbed.model.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    ours, theirs = (
        [{k: v for k, v in row.items() if "second" not in k} for row in rows_of(folder)]
        for folder in (broken, whole)
    )
    assert ours == theirs
    assert len(ours) > 16
