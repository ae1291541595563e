"""Timing, and the table of results."""

import time

__all__ = ["Row", "best", "table"]

Row = tuple[str, float, str, str]


def best(function, repeats=3):
    """Return the shortest time of several runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def table(rows):
    """Print each measured value, the wanted bound, and whether it was reached."""
    print(f"{'what':<64} {'measured':>10}  {'wanted':<10} reached")
    missed = 0
    for what, value, wanted, detail in rows:
        sign, bound = wanted.split()
        reached = value >= float(bound) if sign == ">=" else value <= float(bound)
        missed += not reached
        print(f"{what:<64} {value:>10.3g}  {wanted:<10} {'yes' if reached else 'NO'}", flush=True)
        print(f"    {detail}", flush=True)
    print(f"{missed} missed")
