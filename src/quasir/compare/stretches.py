"""The stretches of the pool: at each rate, consecutive draws for each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from quasir.compare.methods import DEMANDS, Cost, Demand
from quasir.draws.draws import Draws

__all__ = ["FEWEST", "FEWEST_RUNS", "Stretches", "stretches_for"]

FEWEST = 10
"""A run should have so many samples: rather than fewer samples, there are then fewer runs."""
FEWEST_RUNS = 5
"""Rather than fewer runs than this, there are fewer samples: a standard deviation needs runs."""


@dataclass(frozen=True, kw_only=True)
class Stretches:
    """The stretches of one rate: `runs` of them, each of `length` draws, one after another.

    Attributes
    ----------
    cost : Cost
    length, runs : int
    n : int
        Samples of a run, the same for every sampler at this rate; 0 where the draws are too few.
    wanted : int
        Draws needed for all the samples and runs that were asked for.
    """

    cost: Cost
    length: int
    runs: int
    n: int
    wanted: int

    def places(self, run: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        """Return the indices in the pool of a run's draws."""
        return np.arange(run * self.length, (run + 1) * self.length)


def stretches_for(
    pool: Draws, costs: Sequence[Cost], names: Sequence[str], *, n: int, runs: int
) -> list[Stretches]:
    """Cut a pool into stretches for each rate; those of one rate do not overlap.

    Parameters
    ----------
    pool : Draws
    costs : sequence of Cost
        One for each rate; each rate uses the whole pool.
    names : sequence of str
        The samplers.
    n, runs : int
        Samples a run, and runs. Where the pool is too small, runs are lowered first, to
        `FEWEST_RUNS`; then n, to `FEWEST`; then runs again; then n.

    Examples
    --------
    >>> draws = Draws.from_arrays(log_p=np.zeros(1000), log_q=np.zeros(1000))
    >>> for n in (10, 15, 50):
    ...     [found] = stretches_for(draws, [Cost(10)], ["qrs"], n=n, runs=8)
    ...     print(found.n, found.runs, found.length)
    10 8 100
    15 6 150
    20 5 200
    """
    pool = replace(pool, items=None, features={}, log_base=None)
    possible = float((pool.log_p > -np.inf).mean())
    demands = [DEMANDS[name] for name in names]
    return [
        _at(cost, pool=pool, demands=demands, possible=possible, n=n, runs=runs) for cost in costs
    ]


def _at(
    cost: Cost,
    *,
    pool: Draws,
    demands: Sequence[Demand],
    possible: float,
    n: int,
    runs: int,
) -> Stretches:
    """Return the stretches of one rate."""
    need = max([n, *(demand.need(n, cost, possible) for demand in demands)])
    most = max(min(runs, len(pool) // need), min(runs, FEWEST_RUNS))
    for tried in range(most, 0, -1):
        length = min(need, len(pool) // tried)
        found = Stretches(cost=cost, length=length, runs=tried, n=0, wanted=runs * need)
        parts = [pool.take(found.places(run)) for run in range(tried)]
        size = min([n, length, *(d.most(part, cost) for d in demands for part in parts)])
        if size >= min(n, FEWEST):
            break
    return replace(found, n=size)
