"""Which draws of the pool are whose: at each rate, a stretch for each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from quasir.compare.methods import DEMANDS, Cost, Demand
from quasir.draws.draws import Draws

__all__ = ["FEWEST", "FEWEST_RUNS", "Share", "plan"]

FEWEST = 10
"""Samples below which runs are given up rather than made smaller still."""
FEWEST_RUNS = 5
"""Runs below which samples are given up first: a standard deviation over fewer says little."""


@dataclass(frozen=True)
class Share:
    """The stretches of one rate: `runs` of them, each of `length` draws, one after another.

    Attributes
    ----------
    cost : Cost
    length, runs : int
    n : int
        Samples in a run, the same for every sampler at this rate; 0 where there are too few
        draws for any.
    wanted : int
        Draws that all samples and runs asked for would take.
    """

    cost: Cost
    length: int
    runs: int
    n: int
    wanted: int

    def places(self, run: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        """Return where the draws of a run stand in the pool."""
        return np.arange(run * self.length, (run + 1) * self.length)


def plan(
    pool: Draws, costs: Sequence[Cost], names: Sequence[str], n: int, runs: int
) -> list[Share]:
    """Cut a pool into stretches for each rate; those of one rate do not overlap.

    Parameters
    ----------
    pool : Draws
    costs : sequence of Cost
        One for each rate, and each has the whole pool.
    names : sequence of str
        The samplers.
    n, runs : int
        Samples a run, and runs. Where the pool is too small, runs are lowered first, to
        `FEWEST_RUNS`; then n, to `FEWEST`; then runs again; then n.

    Examples
    --------
    >>> draws = Draws.from_arrays(log_p=np.zeros(1000), log_q=np.zeros(1000))
    >>> for n in (10, 15, 50):
    ...     [share] = plan(draws, [Cost(10)], ["qrs"], n, 8)
    ...     print(share.n, share.runs, share.length)
    10 8 100
    15 6 150
    20 5 200
    """
    pool = replace(pool, items=None, features={}, log_base=None)
    possible = float((pool.log_p > -np.inf).mean())
    demands = [DEMANDS[name] for name in names]
    return [_share(pool, cost, demands, possible, n, runs) for cost in costs]


def _share(
    pool: Draws, cost: Cost, demands: Sequence[Demand], possible: float, n: int, runs: int
) -> Share:
    need = max([n, *(demand.need(n, cost, possible) for demand in demands)])
    most = max(min(runs, len(pool) // need), min(runs, FEWEST_RUNS))
    for tried in range(most, 0, -1):
        share = Share(cost, min(need, len(pool) // tried), tried, 0, runs * need)
        stretches = [pool.take(share.places(run)) for run in range(tried)]
        found = min([n, share.length, *(d.most(s, cost) for d in demands for s in stretches)])
        if found >= min(n, FEWEST):
            break
    return replace(share, n=found)
