"""Killed at random moments of a whole run, by both engines, it ends in the same content."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

RECIPE = """\
base: {table: {apple: 0.4, bee: 0.3, cow: 0.2, dog: 0.1}}
features:
  vowel: {search: "^[aeiou]"}
want: {vowel: 0.6}
proposal: {mixture: [base, {table: {apple: 1, bee: 1, cow: 1, dog: 1}}]}
fit: 400000
draws: 2000000
choose: {tvd: 0.02}
samples: 50
"""
KILLS = 15
"""For each engine: thirty in all."""


def command(engine, folder):
    """Return what draws by an engine; the local one goes on to the report."""
    start = [sys.executable, "-m", "quasir"]
    if engine == "local":
        return [*start, "run", str(folder / "r.yaml"), "--out", str(folder / "run")]
    drawn = ["draw", str(folder / "r.yaml"), "--out", str(folder / "run")]
    return [*start, *drawn, "--engine", "ray", "--workers", "2"]


def outcome(folder):
    """Return what must be the same: the draws, what was fitted, and the shards' hashes."""
    manifest = json.loads((folder / "run" / "manifest.json").read_text())
    kept = {name: manifest[name] for name in ("content", "draws", "seed", "recipe")}
    return kept | {"shards": {k: v["sha256"] for k, v in manifest["shards"].items()}}


def begin(folder):
    folder.mkdir()
    (folder / "r.yaml").write_text(RECIPE)
    return folder


def run_for(engine, folder, seconds):
    """Run and kill the whole group after some seconds; return whether it was killed."""
    process = subprocess.Popen(
        command(engine, folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        _, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return True
    assert process.returncode == 0, err.decode()
    return False


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_thirty_kills_spread_over_whole_runs(engine, tmp_path):
    whole = begin(tmp_path / "whole")
    began = time.monotonic()
    assert not run_for(engine, whole, 600)
    length = time.monotonic() - began
    expected, rng = outcome(whole), random.Random(7)
    kills, attempt = 0, 0
    while kills < KILLS:
        folder = begin(tmp_path / f"killed-{attempt}")
        attempt += 1
        # A moment anywhere in a whole run, then again and again as it goes on.
        while run_for(engine, folder, rng.uniform(0.2, length)):
            kills += 1
        assert outcome(folder) == expected
        assert attempt <= 3 * KILLS
