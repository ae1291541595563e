"""The samplers that replay stored draws: each says which draws of a stretch it keeps.

All are given the same stretch, and each pays about ``steps`` proposals for a sample, the inverse
of the acceptance rate. QRS keeps one draw in ``steps``, and a chain one state in ``steps``. A chain
that is reset has ``steps`` states, its wait for a start included. SIR resamples from ``steps``
draws for each sample (appendices F and G of the paper).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from quasir.certificates.certificate import Certificate
from quasir.certificates.tradeoff import tradeoff
from quasir.draws.draws import Draws
from quasir.samplers import IMH, SIR, IncrementalQRS
from quasir.samplers.schedule import Schedule

__all__ = [
    "DEMANDS",
    "METHODS",
    "WALKS",
    "Cost",
    "Demand",
    "Kept",
    "label_of",
    "proposal",
    "waits",
]

Places = NDArray[np.intp]

WALKS = ("rwmh", "rwmh-reset")
"""The samplers that start at stored draws, but then propose edits of their own."""

LABELS = {
    "proposal": "proposal",
    "qrs": "QRS",
    "sir": "SIR",
    "imh": "IMH-{}",
    "imh-reset": "IMH-reset-{}",
    "rwmh": "RWMH-{}",
    "rwmh-reset": "RWMH-reset-{}",
}


@dataclass(frozen=True)
class Cost:
    """What a sample costs.

    Attributes
    ----------
    steps : int
        Proposals for a sample.
    burn_in : int
        Proposals of a chain before its first sample.
    wait : int
        Mean number of draws with P(x) = 0 before one with P(x) > 0, where a chain can start.

    Examples
    --------
    >>> Cost(100, wait=24).chain, Cost(10, wait=24).chain
    (76, 1)
    """

    steps: int
    burn_in: int = 1000
    wait: int = 0

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
    """The samples that a sampler keeps from a stretch.

    Attributes
    ----------
    places : array of int
        Indices of the samples in the stretch, in the sampler's order.
    proposals : int
        Draws used for them, including the burn-in and the wait for a start.
    certificate : Certificate or None
        Has the distance of the samples' law to p, where it can be estimated.
    doubts : tuple of str
    """

    places: Places
    proposals: int
    certificate: Certificate | None = None
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Demand:
    """How many draws a sampler needs.

    Attributes
    ----------
    need : callable
        ``need(n, cost, possible)`` returns how many draws give n samples, with room for chance;
        `possible` is the share of draws with P(x) > 0.
    most : callable
        ``most(stretch, cost)`` returns how many samples a stretch gives.
    """

    need: Callable[[int, Cost, float], int]
    most: Callable[[Draws, Cost], int]


@dataclass(frozen=True)
class Method(Demand):
    """A sampler that replays draws.

    Attributes
    ----------
    keep : callable
        ``keep(stretch, n, cost, seed)`` returns the samples.
    """

    keep: Callable[[Draws, int, Cost, int], Kept]


def label_of(name: str, steps: int) -> str:
    """Return the name of a sampler in the tables.

    Examples
    --------
    >>> label_of("imh-reset", 1000), label_of("qrs", 1000)
    ('IMH-reset-1000', 'QRS')
    """
    return LABELS[name].format(steps)


def waits(n: int, possible: float) -> int:
    """Return how many draws hold n with P(x) > 0, six standard deviations on the safe side.

    With s the share of draws with P(x) > 0, N draws hold N s of them on average, with a standard
    deviation of at most sqrt(N s). N s - 6 sqrt(N s) = n has the solution
    N s = (3 + sqrt(9 + n))^2.

    Examples
    --------
    >>> waits(100, 1.0), waits(100, 0.5)
    (100, 362)
    """
    return n if possible == 1 else math.ceil((3 + math.sqrt(9 + n)) ** 2 / possible)


class _Replayed:
    """Stands for P and q where draws are replayed: neither is called."""

    def log_score(self, items: Any) -> NoReturn:
        raise AssertionError("stored draws have been scored")

    def sample(self, n: int, rng: Any) -> NoReturn:
        raise AssertionError("stored draws have been drawn")

    log_prob = log_score


STORED = _Replayed()


def proposal(stretch: Draws, n: int) -> Kept:
    """Return the proposal itself: the first n draws."""
    certificate = tradeoff(stretch, log_betas=[0.0]).proposal
    return Kept(np.arange(n), n, certificate, tuple(certificate.doubts))


def _qrs_need(n: int, cost: Cost, possible: float) -> int:
    return max(n * cost.steps, waits(n, possible))


def _qrs_most(stretch: Draws, cost: Cost) -> int:
    return min(len(stretch) // cost.steps, int((stretch.log_p > -np.inf).sum()))


def _qrs(stretch: Draws, n: int, cost: Cost, seed: int) -> Kept:
    """Keep the n largest alphas of the first n*steps draws (Algorithm 2); beta is the next one."""
    samples = IncrementalQRS(STORED, STORED, cost.rate).replay(_numbered(stretch), n)
    if samples.log_beta == -math.inf:
        certificate = tradeoff(stretch, log_betas=[0.0]).projection
        doubts = (*samples.doubts, *certificate.doubts)
    else:
        certificate = tradeoff(stretch, log_betas=[samples.log_beta]).at(log_beta=samples.log_beta)
        doubts = tuple(certificate.doubts)
    return Kept(np.asarray(samples.items), samples.proposals, certificate, doubts)


def _sir_need(n: int, cost: Cost, possible: float) -> int:
    return max(n * cost.steps, waits(1, possible))


def _sir_most(stretch: Draws, cost: Cost) -> int:
    possible = np.flatnonzero(stretch.log_p > -np.inf)
    return len(stretch) // cost.steps if len(possible) else 0


def _sir(stretch: Draws, n: int, cost: Cost, seed: int) -> Kept:
    """Draw n of the first n*steps draws by their weights."""
    # Where none of these has P(x) > 0, take all draws up to the first that has.
    first = int(np.argmax(stretch.log_p > -np.inf)) + 1
    candidates = _numbered(stretch).take(np.arange(max(n * cost.steps, first)))
    samples = SIR(STORED, STORED, len(candidates)).replay(candidates, n, seed)
    return Kept(np.asarray(samples.items), samples.proposals, None, samples.doubts)


def _chain(need: Callable[[int, Cost, float], int], schedule: Callable[[Cost], Schedule]) -> Method:
    """Return a method that runs independent Metropolis-Hastings on a schedule."""

    def most(stretch: Draws, cost: Cost) -> int:
        return len(schedule(cost).cut(stretch.log_p > -np.inf, 0)[1])

    def keep(stretch: Draws, n: int, cost: Cost, seed: int) -> Kept:
        when = schedule(cost)
        sampler = IMH(STORED, STORED, burn_in=when.burn_in, thin=when.thin, reset=when.reset)
        chain = sampler.replay(_numbered(stretch), n)
        return Kept(np.asarray(chain.items), chain.proposals, None, chain.doubts)

    return Method(need, most, keep)


def _numbered(stretch: Draws) -> Draws:
    """Return draws whose items are their indices, so that no texts are copied."""
    return replace(stretch, items=np.arange(len(stretch)), features={}, log_base=None)


METHODS = {
    "qrs": Method(_qrs_need, _qrs_most, _qrs),
    "imh": _chain(
        lambda n, cost, possible: waits(1, possible) + cost.burn_in + n * cost.steps,
        lambda cost: Schedule(cost.burn_in, cost.steps),
    ),
    "imh-reset": _chain(
        lambda n, cost, possible: n * (cost.chain - 1) + waits(n, possible),
        lambda cost: Schedule(reset=cost.chain),
    ),
    "sir": Method(_sir_need, _sir_most, _sir),
}
"""The samplers that replay draws, by their names on the command line."""

DEMANDS: dict[str, Demand] = {
    **METHODS,
    "rwmh": Demand(
        lambda n, cost, possible: waits(1, possible),
        lambda stretch, cost: sys.maxsize if (stretch.log_p > -np.inf).any() else 0,
    ),
    "rwmh-reset": Demand(
        lambda n, cost, possible: waits(n, possible),
        lambda stretch, cost: int((stretch.log_p > -np.inf).sum()),
    ),
}
"""All samplers; a random walk needs one stored draw for each chain, to start at."""
