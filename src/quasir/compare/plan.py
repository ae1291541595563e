"""Which draws of the pool are whose: disjoint stretches, one for each rate and run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from quasir.compare.methods import METHODS, Cost
from quasir.draws import Draws

__all__ = ["FEWEST", "Share", "plan", "shares_of"]

FEWEST = 10
"""Samples below which a run is given up rather than made smaller still."""


@dataclass(frozen=True)
class Share:
    """The stretches of one rate: `runs` of them, each of `length` draws, from `start` on.

    Attributes
    ----------
    cost : Cost
    start, length, runs : int
    n : int
        Samples in a run, the same for every sampler at this rate; 0 where there are too few
        draws for any.
    wanted : int
        Draws that all samples and runs asked for would take.
    """

    cost: Cost
    start: int
    length: int
    runs: int
    n: int
    wanted: int

    def places(self, run: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        """Return where the draws of a run stand in the pool."""
        first = self.start + run * self.length
        return np.arange(first, first + self.length)


def plan(
    pool: Draws, costs: Sequence[Cost], names: Sequence[str], n: int, runs: int
) -> list[Share]:
    """Cut a pool into stretches, one a rate and run, none of them overlapping.

    Parameters
    ----------
    pool : Draws
    costs : sequence of Cost
        One for each rate.
    names : sequence of str
        The samplers; those that replay no draws need none.
    n, runs : int
        Samples a run, and runs. Where the pool is too small, n is lowered first, to `FEWEST`;
        then runs; then n again.

    Examples
    --------
    >>> draws = Draws.from_arrays(log_p=np.zeros(1000), log_q=np.zeros(1000))
    >>> [(share.n, share.runs, share.length) for share in plan(draws, [Cost(10)], ["qrs"], 50, 4)]
    [(25, 4, 250)]
    """
    pool = replace(pool, items=None, features={}, log_base=None)
    possible = float((pool.log_p > -np.inf).mean())
    methods = [METHODS[name] for name in names if name in METHODS]
    needs = [max([n, *(m.need(n, cost, possible) for m in methods)]) for cost in costs]
    start, planned = 0, []
    for cost, need, share in zip(
        costs, needs, shares_of(len(pool), [runs * need for need in needs]), strict=True
    ):
        for tried in range(runs, 0, -1):
            length = min(need, share // tried)
            stretches = [
                pool.take(np.arange(start + run * length, start + (run + 1) * length))
                for run in range(tried)
            ]
            found = min([n, length, *(m.most(s, cost) for m in methods for s in stretches)])
            if found >= min(n, FEWEST) or tried == 1:
                planned.append(Share(cost, start, length, tried, found, runs * need))
                break
        start += share
    return planned


def shares_of(total: int, wanted: Sequence[int]) -> list[int]:
    """Divide a pool: all get what they want, or as much as every other that wants more.

    Examples
    --------
    >>> shares_of(100, [10, 60, 500])
    [10, 45, 45]
    """
    shares, left = [0] * len(wanted), total
    for served, i in enumerate(sorted(range(len(wanted)), key=lambda i: wanted[i])):
        shares[i] = min(wanted[i], left // (len(wanted) - served))
        left -= shares[i]
    return shares
