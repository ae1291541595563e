"""The benchmarks' measure of memory is of one process, not of its parent too."""

import subprocess
import sys
from pathlib import Path

import numpy as np
from benchmarks.memory import gigabytes

ROOT = Path(__file__).parents[2]


def test_a_child_does_not_count_the_memory_of_its_parent():
    held = np.ones(50_000_000)  # 0.4 GB
    out = subprocess.run(
        [
            sys.executable,
            "-c",
            "from benchmarks.memory import gigabytes; print(gigabytes('VmHWM'))",
        ],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert gigabytes("VmRSS") > held.nbytes / 1e9
    assert 0 < float(out.stdout) < 0.2


def test_the_peak_is_not_below_what_is_held_now():
    assert gigabytes("VmHWM") >= gigabytes("VmRSS") > 0
