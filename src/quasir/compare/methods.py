"""The samplers that replay stored draws, one interface: which draws of a stretch each keeps.

All are given the same stretch, and a sample costs each about ``steps`` proposals, the inverse of
the acceptance rate: QRS keeps one draw in so many, a chain one state, a chain that is reset takes
so many with its wait for a start, and a pool that is resampled has so many draws a sample
(appendices F and G of the paper).
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
    "Method",
    "label_of",
    "proposal",
    "waits",
]

Places = NDArray[np.intp]

WALKS = ("rwmh", "rwmh-reset")
"""The samplers that only start at stored draws, and propose edits of their own."""

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
        Proposals a sample.
    burn_in : int
        Proposals that a chain makes before its first.
    wait : int
        Draws with P(x) = 0 that come before one with P(x) > 0, on average: a chain starts there.

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
        """States of a chain that is reset: with the wait for its start, it costs ``steps``."""
        return max(1, self.steps - self.wait)

    @property
    def rate(self) -> float:
        """The acceptance rate, as the paper counts for all samplers: samples per proposal."""
        return 1 / self.steps


@dataclass(frozen=True, eq=False)
class Kept:
    """What a sampler kept of a stretch.

    Attributes
    ----------
    places : array of int
        Where its samples stand in the stretch, in the sampler's order.
    proposals : int
        Draws used for them, burn-in and waiting for a start included.
    certificate : Certificate or None
        The law's distance to p, where it can be estimated.
    doubts : tuple of str
    """

    places: Places
    proposals: int
    certificate: Certificate | None = None
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Demand:
    """How many draws a sampler takes.

    Attributes
    ----------
    need : callable
        From n, the cost, and the share of draws with P(x) > 0 to the draws that give n samples,
        with room for chance.
    most : callable
        From a stretch and the cost to how many samples it gives.
    """

    need: Callable[[int, Cost, float], int]
    most: Callable[[Draws, Cost], int]


@dataclass(frozen=True)
class Method(Demand):
    """A sampler that replays draws.

    Attributes
    ----------
    keep : callable
        From a stretch, n, the cost and a seed to what is kept.
    """

    keep: Callable[[Draws, int, Cost, int], Kept]


def label_of(name: str, steps: int) -> str:
    """Return what the tables call a sampler.

    Examples
    --------
    >>> label_of("imh-reset", 1000), label_of("qrs", 1000)
    ('IMH-reset-1000', 'QRS')
    """
    return LABELS[name].format(steps)


def waits(n: int, possible: float) -> int:
    """Return how many draws hold n with P(x) > 0, six standard deviations on the safe side.

    N draws hold N s of them, s being their share, give or take sqrt(N s) at most; what solves
    N s - 6 sqrt(N s) = n is N s = (3 + sqrt(9 + n))^2.

    Examples
    --------
    >>> waits(100, 1.0), waits(100, 0.5)
    (100, 362)
    """
    return n if possible == 1 else math.ceil((3 + math.sqrt(9 + n)) ** 2 / possible)


class _Replayed:
    """Stands for P and q where draws are replayed: neither is asked."""

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
    """Keep the n largest alphas of the first n steps (Algorithm 2); beta is the next."""
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
    """Draw n of the first n steps by their weights."""
    # Where none of these is possible, the pool grows to the first that is.
    first = int(np.argmax(stretch.log_p > -np.inf)) + 1
    pool = _numbered(stretch).take(np.arange(max(n * cost.steps, first)))
    samples = SIR(STORED, STORED, len(pool)).replay(pool, n, seed)
    return Kept(np.asarray(samples.items), samples.proposals, None, samples.doubts)


def _chain(need: Callable[[int, Cost, float], int], schedule: Callable[[Cost], Schedule]) -> Method:
    """Return a method that runs independent Metropolis-Hastings by a schedule."""

    def most(stretch: Draws, cost: Cost) -> int:
        return len(schedule(cost).cut(stretch.log_p > -np.inf, 0)[1])

    def keep(stretch: Draws, n: int, cost: Cost, seed: int) -> Kept:
        when = schedule(cost)
        sampler = IMH(STORED, STORED, burn_in=when.burn_in, thin=when.thin, reset=when.reset)
        chain = sampler.replay(_numbered(stretch), n)
        return Kept(np.asarray(chain.items), chain.proposals, None, chain.doubts)

    return Method(need, most, keep)


def _numbered(stretch: Draws) -> Draws:
    """Return draws whose items are their places: texts need not be moved about."""
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
"""The samplers that replay draws, by the name that the command line has."""

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
"""All samplers; a random walk takes a start of the stored draws for each chain."""
