"""Samplers on stored draws: which draws of a pool each run may use, and which a sampler keeps.

All samplers are given the same stretch, and each pays about ``steps`` proposals for a sample, the
inverse of the acceptance rate. QRS keeps one draw in ``steps``, and a chain one state in ``steps``.
A chain that is reset has ``steps`` states, its wait for a start included. SIR resamples from
``steps`` draws for each sample (appendices F and G of the paper).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from quasir.certificates.certificate import Certificate
from quasir.certificates.curve import tradeoff
from quasir.draws.draws import Draws
from quasir.samplers import IMH, SIR, IncrementalQRS
from quasir.samplers.schedule import Schedule

FEWEST = 10
"""A run should have so many samples: rather than fewer samples, there are then fewer runs."""
FEWEST_RUNS = 5
"""Rather than fewer runs than this, there are fewer samples: a standard deviation needs runs."""


@dataclass(frozen=True)
class Cost:
    """What a sample costs: `steps` proposals, after a chain's `burn_in`."""

    steps: int
    burn_in: int = 1000
    wait: int = 0  # mean number of draws with P(x) = 0 before one that a chain can start at

    @property
    def chain(self) -> int:
        """States of a chain that is reset; together with the wait, they cost ``steps``."""
        return max(1, self.steps - self.wait)

    @property
    def rate(self) -> float:
        """The acceptance rate in the paper's sense: samples per proposal, for any sampler."""
        return 1 / self.steps


@dataclass(frozen=True, eq=False)
class Kept:
    """The samples that a sampler keeps from a stretch: their indices, in the sampler's order."""

    indices: NDArray[np.intp]
    proposals: int  # draws used for them, including the burn-in and the wait for a start
    certificate: Certificate | None = None  # their distance to p, where it can be estimated
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Method:
    """A sampler: how many draws it needs, how many samples they give, and which it keeps.

    ``need(n, cost, possible)`` draws give n samples, with room for chance; `possible` is the share
    of draws with P(x) > 0. A stretch gives ``most(stretch, cost)`` samples.
    """

    need: Callable[[int, Cost, float], int]
    most: Callable[[Draws, Cost], int]
    # From a stretch, n and a seed; None for a walk, which only starts at stored draws.
    keep: Callable[[Draws, int, Cost, int], Kept] | None = None


def draws_to_hold(n: int, possible: float) -> int:
    """Return how many draws hold n with P(x) > 0, six standard deviations on the safe side.

    With s the share of draws with P(x) > 0, N draws hold N s of them on average, with a standard
    deviation of at most sqrt(N s). N s - 6 sqrt(N s) = n has the solution
    N s = (3 + sqrt(9 + n))^2.
    """
    return n if possible == 1 else math.ceil((3 + math.sqrt(9 + n)) ** 2 / possible)


def count_possible(stretch: Draws) -> int:
    """Return how many draws have P(x) > 0."""
    return int((stretch.log_p > -np.inf).sum())


class _Replayed:
    """Stands for P and q where draws are replayed: neither is called."""

    def log_score(self, items: Any) -> NoReturn:
        raise AssertionError("stored draws have been scored")

    def sample(self, n: int, rng: Any) -> NoReturn:
        raise AssertionError("stored draws have been drawn")

    log_prob = log_score


STORED = _Replayed()


def keep_first(stretch: Draws, n: int) -> Kept:
    """Return the proposal itself: the first n draws."""
    certificate = tradeoff(stretch, log_betas=[0.0]).proposal
    return Kept(np.arange(n), n, certificate, tuple(certificate.warnings))


def _keep_best(stretch: Draws, n: int, cost: Cost, seed: int) -> Kept:
    """Keep the n largest alphas of the first n*steps draws (Algorithm 2); beta is the next one."""
    samples = IncrementalQRS(STORED, STORED, cost.rate).replay(_numbered(stretch), n)
    if samples.log_beta == -math.inf:
        certificate = tradeoff(stretch, log_betas=[0.0]).projection
        warnings = (*samples.warnings, *certificate.warnings)
    else:
        certificate = tradeoff(stretch, log_betas=[samples.log_beta]).at(log_beta=samples.log_beta)
        warnings = tuple(certificate.warnings)
    return Kept(np.asarray(samples.items), samples.proposals, certificate, warnings)


def _resample(stretch: Draws, n: int, cost: Cost, seed: int) -> Kept:
    """Draw n of the first n*steps draws by their weights."""
    # Where none of these has P(x) > 0, take all draws up to the first that has.
    first = int(np.argmax(stretch.log_p > -np.inf)) + 1
    candidates = _numbered(stretch).take(np.arange(max(n * cost.steps, first)))
    samples = SIR(STORED, STORED, len(candidates)).replay(candidates, n, seed)
    return Kept(np.asarray(samples.items), samples.proposals, None, samples.warnings)


def _chain(schedule: Callable[[Cost], Schedule]) -> dict[str, Any]:
    """Return how independent Metropolis-Hastings on a schedule fills `Method`."""

    def most(stretch: Draws, cost: Cost) -> int:
        return len(schedule(cost).cut(stretch.log_p > -np.inf, 0)[1])

    def keep(stretch: Draws, n: int, cost: Cost, seed: int) -> Kept:
        chain = IMH(STORED, STORED, **schedule(cost).options).replay(_numbered(stretch), n)
        return Kept(np.asarray(chain.items), chain.proposals, None, chain.warnings)

    return {"most": most, "keep": keep}


def _numbered(stretch: Draws) -> Draws:
    """Return draws whose items are their indices, so that no texts are copied."""
    return replace(stretch, items=np.arange(len(stretch)), features={}, log_base=None)


METHODS = {
    "qrs": Method(
        lambda n, cost, possible: max(n * cost.steps, draws_to_hold(n, possible)),
        lambda stretch, cost: min(len(stretch) // cost.steps, count_possible(stretch)),
        _keep_best,
    ),
    "imh": Method(
        lambda n, cost, possible: draws_to_hold(1, possible) + cost.burn_in + n * cost.steps,
        **_chain(lambda cost: Schedule(cost.burn_in, cost.steps)),
    ),
    "imh-reset": Method(
        lambda n, cost, possible: n * (cost.chain - 1) + draws_to_hold(n, possible),
        **_chain(lambda cost: Schedule(reset=cost.chain)),
    ),
    "sir": Method(
        lambda n, cost, possible: max(n * cost.steps, draws_to_hold(1, possible)),
        lambda stretch, cost: len(stretch) // cost.steps if count_possible(stretch) else 0,
        _resample,
    ),
    "rwmh": Method(
        lambda n, cost, possible: draws_to_hold(1, possible),
        lambda stretch, cost: sys.maxsize if count_possible(stretch) else 0,
    ),
    "rwmh-reset": Method(
        lambda n, cost, possible: draws_to_hold(n, possible),
        lambda stretch, cost: count_possible(stretch),
    ),
}
"""All samplers, by their names on the command line."""
WALKS = [name for name, method in METHODS.items() if method.keep is None]
"""The samplers that start at stored draws, one for each chain, but then propose edits."""


@dataclass(frozen=True, kw_only=True)
class Stretches:
    """The stretches of one rate: `runs` of them, each of `length` draws, one after another."""

    cost: Cost
    length: int
    runs: int
    n: int  # samples that every sampler gives in a run; 0 where the draws are too few
    wanted: int  # draws that all that was asked for would need

    def cut(self, pool: Draws) -> list[Draws]:
        """Return the draws of each run."""
        starts = range(0, self.runs * self.length, self.length)
        return [pool.take(np.arange(start, start + self.length)) for start in starts]


def stretches_for(
    pool: Draws, costs: Sequence[Cost], names: Sequence[str], *, n: int, runs: int
) -> list[Stretches]:
    """Cut a pool into stretches for each rate; those of one rate do not overlap.

    Each rate uses the whole pool. Where it is too small for n samples in each of `runs` runs, runs
    are lowered first, to `FEWEST_RUNS`; then n, to `FEWEST`; then runs again; then n.
    """
    pool = replace(pool, items=None, features={}, log_base=None)
    possible = count_possible(pool) / len(pool)
    methods, every = [METHODS[name] for name in names], []
    for cost in costs:
        need = max([n, *(method.need(n, cost, possible) for method in methods)])
        most = max(min(runs, len(pool) // need), min(runs, FEWEST_RUNS))
        for tried in range(most, 0, -1):
            length = min(need, len(pool) // tried)
            found = Stretches(cost=cost, length=length, runs=tried, n=0, wanted=runs * need)
            parts = found.cut(pool)
            size = min([n, length, *(m.most(part, cost) for m in methods for part in parts)])
            if size >= min(n, FEWEST):
                break
        every.append(replace(found, n=size))
    return every
