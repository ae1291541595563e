"""Timing, and the table of results."""

import os
import platform
import time
from importlib.metadata import version
from pathlib import Path

__all__ = ["Row", "best", "machine", "table"]

Row = tuple[str, float, str, str]


def best(function, repeats=3):
    """Return the shortest time of several runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def machine():
    """Return the machine and the versions in a line: numbers mean nothing without them."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else platform.processor() or platform.machine()
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "torch"))
    return f"{os.cpu_count()} cores, {processor}; Python {platform.python_version()}, {packages}"


def table(rows):
    """Print the machine, each measured value, the wanted bound, and whether it was reached."""
    print(machine())
    print(f"{'what':<64} {'measured':>10}  {'wanted':<10} reached")
    missed = 0
    for what, value, wanted, detail in rows:
        sign, bound = wanted.split()
        reached = value >= float(bound) if sign == ">=" else value <= float(bound)
        missed += not reached
        print(f"{what:<64} {value:>10.3g}  {wanted:<10} {'yes' if reached else 'NO'}", flush=True)
        print(f"    {detail}", flush=True)
    print(f"{missed} missed")
