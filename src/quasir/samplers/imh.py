"""Independent Metropolis-Hastings, Algorithm 3 (`al:IMH`, appendix F), from q or from QRS."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import as_log_beta, number
from quasir.core.formatting import short_repr
from quasir.core.streams import BLOCK
from quasir.core.types import Array, Proposal, Target
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.samplers.base import CollectingSampler, Collector, Schedule, sample_columns, stuck
from quasir.samplers.results import ChainSamples

__all__ = ["IMH", "RejectionChain"]


@dataclass(eq=False, repr=False)
class IMH(CollectingSampler[ChainSamples]):
    """A Markov chain that proposes from q in every state; its stationary distribution is p.

    From x it moves to x' ~ q with probability min(1, w(x')/w(x)), where w = P/q. It decides with
    the uniform of the draw, so live proposals and stored draws give the same chain.

    Parameters
    ----------
    target, proposal : Target, Proposal
        P and q.
    burn_in : int
        Steps before the first one that can be a sample.
    thin : int
        Keep one state out of this many.
    reset : int, optional
        Instead of the two above: run a new chain of this many proposals for each sample, and
        take its last state. The samples are then i.i.d.
    bound : float, optional
        M with p(x) <= M q(x) for all x, if known (p is normalised). It bounds the distance to p.

    Notes
    -----
    Algorithm 3 divides by w(x), which is 0 where the first draw has P(x) = 0. Here the chain
    starts at the first draw with P(x) > 0. Its output begins after the first step.

    A footnote of appendix F has TVD(p, pi^(n)) <= 2 (1 - 1/M)^n after n steps. The factor 2 belongs
    to the L1 distance (Mengersen and Tweedie 1996), and the start counts as a step:
    `ChainSamples.tvd_at_most` is (1 - 1/M)^k, with k proposals up to the first sample.

    Examples
    --------
    >>> from scipy import stats
    >>> import quasir as qr
    >>> target, proposal = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))
    >>> chain = qr.IMH(target, proposal, burn_in=100, thin=10).sample(1000, seed=1)
    >>> len(chain), chain.proposals, chain.distance.split(":")[0]
    (1000, 10101, 'unknown')
    """

    burn_in: int = 0
    thin: int = 1
    reset: int | None = None
    bound: float | None = None
    verb = "found"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.schedule = Schedule(self.burn_in, self.thin, self.reset)
        if self.bound is not None and not number("bound", self.bound) >= 1:
            raise InputError(f"bound is {short_repr(self.bound)}, but must be at least 1.")

    def collector(self, n: int | None) -> Collector[ChainSamples]:
        """Return a chain that has not started."""
        return IndependentChain(self.schedule, n, getattr(self, "log_beta", None), self.bound)


class RejectionChain(IMH):
    """IMH whose candidates are the samples of QRS at beta; its stationary distribution is p.

    It is a rejection sampling chain (Tierney 1994, section 2.3.4).

    If P(x) <= beta q(x) for all x, this is rejection sampling, and the chain moves to every
    candidate. If not, the candidates follow p_beta, and the chain stays longer at a state with
    P(x) > beta q(x), which makes up for the mass that p_beta lacks there.

    Parameters
    ----------
    target, proposal, beta, log_beta
        See `QRS`.
    burn_in, thin, reset, bound
        See `IMH`; steps are candidates, each of which costs 1/AR proposals.

    Notes
    -----
    One uniform for each draw serves both decisions: given that u < min(1, w/beta), the number
    u/min(1, w/beta) is uniform and independent of the candidate. The chain moves if it is below the
    ratio, that is if alpha > max(beta, w(x)): the kernel of IMH, with max(beta, w) in place of w. A
    bound M on p/q is also a bound on p/p_beta = (Z_beta/Z) max(1, w/beta).

    Examples
    --------
    >>> import quasir as qr
    >>> target, proposal = qr.Table({"a": 0.5, "b": 0.5}), qr.Table({"a": 0.9, "b": 0.1})
    >>> chain = qr.RejectionChain(target, proposal, beta=2.0).sample(1000, seed=0)
    >>> 1000 <= chain.steps < chain.proposals
    True
    """

    def __init__(
        self,
        target: Target,
        proposal: Proposal,
        beta: float | None = None,
        *,
        log_beta: float | None = None,
        burn_in: int = 0,
        thin: int = 1,
        reset: int | None = None,
        bound: float | None = None,
    ) -> None:
        super().__init__(target, proposal, burn_in, thin, reset, bound)
        self.log_beta = as_log_beta(beta, log_beta)


class IndependentChain(Collector[ChainSamples]):
    """Chains over draws; with a beta, over those that QRS accepts, of weight max(w, beta)."""

    def __init__(
        self, schedule: Schedule, n: int | None, log_beta: float | None, bound: float | None = None
    ) -> None:
        super().__init__(n)
        self.schedule, self.log_beta, self.bound = schedule, log_beta, bound
        self.steps = self.moves = self.longest_stay = 0
        self._candidates = self._done = self._stay = 0
        self._here: Draws | None = None
        self._log_w = -math.inf

    @property
    def in_sight(self) -> int:
        """All samples, once the chain has started; none before."""
        return 0 if self._here is None else self.n or 1

    def next_stop(self) -> int | None:
        assert self.n is not None
        if self.count >= self.n:
            return None
        missing = self.schedule.states_for(self.n) - self._done
        if self.schedule.reset is not None:
            missing -= self.schedule.reset * self.count
        filtered = self.log_beta is not None and self.seen > 0
        rate = max(self._candidates, 1) / self.seen if filtered else 1.0
        return self.seen + BLOCK * max(1, math.ceil(missing / rate / BLOCK))

    def add(self, piece: Draws) -> None:
        log_w, log_alpha = piece.log_ratio, piece.log_alpha
        indices = np.arange(len(piece))
        if self.log_beta is not None:
            indices = piece.accepted(log_beta=self.log_beta)
            log_w, log_alpha = np.maximum(log_w[indices], self.log_beta), log_alpha[indices]
        starts, samples, done = self.schedule.cut(log_w > -np.inf, self._done)
        if self.n is not None:
            samples = samples[: self.n - self.count]
        log_alpha = log_alpha.copy()
        log_alpha[starts] = np.inf
        states = chain_states(log_w, log_alpha, self._log_w)
        full = self.n is not None and self.count + len(samples) == self.n
        self._count_steps(states, starts, int(samples[-1]) + 1 if full else len(states))
        self.proposals = self.seen + (int(indices[samples[-1]]) + 1 if full else len(piece))
        self.seen += len(piece)
        self._candidates += len(indices)
        # Samples before the first move of this piece repeat the state before it.
        own = states[samples]
        before = int((own < 0).sum())
        if before:
            assert self._here is not None
            self._kept.append(self._here.take(np.zeros(before, np.intp)))
        if before < len(own) or not self._kept:
            self._kept.append(piece.take(indices[own[before:]]))
        self.count += len(samples)
        self._done = done
        if len(states) and states[-1] >= 0:
            self._here = piece.take(indices[states[-1:]])
            self._log_w = float(log_w[states[-1]])

    def _count_steps(self, states: NDArray[np.intp], starts: NDArray[np.intp], stop: int) -> None:
        starts = starts[starts < stop]
        length = stop + self._done if self.schedule.reset is None else self.schedule.reset
        inside = min(length - self._done, stop) if self._done else 0
        inside += int(np.minimum(length, stop - starts).sum())
        moved = np.flatnonzero(states[:stop] == np.arange(stop))
        self.steps += inside - len(starts)
        self.moves += len(moved) - len(starts)
        if self.schedule.reset is None and inside:
            since = -self._stay if self._done else int(starts[0])
            edges = np.concatenate([[since], moved, [stop]])
            self.longest_stay = max(self.longest_stay, int(np.diff(edges).max()) - 1)
            self._stay = stop - int(edges[-2])

    def result(self) -> ChainSamples:
        k, alone = self.schedule.states_for(1), self.schedule.reset is not None
        at_most = 1.0 if self.bound is None else (1 - 1 / self.bound) ** k
        distance = (
            f"unknown: the distribution of a chain's state number {k:,} tends to p as the chain "
            "grows, but can be neither scored nor compared with p (appendix F). QRS estimates "
            "its distance; bound=M bounds that of the chain if p <= M q is known."
            if self.bound is None
            else f"TVD <= {at_most:.3g}: (1 - 1/M)^{k} with M = {self.bound:g}, for each single "
            "sample; the distance itself is unknown and often far smaller."
        )
        return ChainSamples(
            **sample_columns(self.kept, self.proposals),
            distance=distance,
            warnings=() if alone else stuck(self.longest_stay, self.steps),
            steps=self.steps,
            moves=self.moves,
            independent=alone,
            tvd_at_most=at_most,
        )


def chain_states(log_w: Array, log_alpha: Array, log_w_here: float = -math.inf) -> NDArray[np.intp]:
    """Return the state after each candidate: its index, or -1 for the state before the first.

    The chain moves to candidate j if alpha_j > w, the weight of its state; +inf forces a move. A
    chain from weight 0 moves whenever it does, and from the first such move on the two are equal.
    So sqrt(n) rows run at once from weight 0; the state before a row is kept up to its first move.
    """
    n = len(log_w)
    if n == 0:
        return np.empty(0, dtype=np.intp)
    length = math.isqrt(n - 1) + 1
    rows = -(-n // length)
    weight, alpha = np.full((2, rows * length), -np.inf)
    weight[:n], alpha[:n] = log_w, log_alpha
    weight, alpha = weight.reshape(rows, length), alpha.reshape(rows, length)
    states = np.empty((length, rows), dtype=np.intp)
    weight_here, here = np.full(rows, -np.inf), np.full(rows, -1)
    first = np.arange(rows) * length
    columns = np.ascontiguousarray(weight.T), np.ascontiguousarray(alpha.T)
    for j, (weight_j, alpha_j) in enumerate(zip(*columns, strict=True)):
        moves = alpha_j > weight_here
        np.copyto(weight_here, weight_j, where=moves)
        np.copyto(here, first + j, where=moves)
        states[j] = here
    states = np.ascontiguousarray(states.T)
    state = -1
    for row in range(rows):
        ahead = alpha[row] > log_w_here
        stop = int(ahead.argmax())
        stop = stop if ahead[stop] else length
        states[row, :stop] = state
        if stop < length:
            state = int(states[row, -1])
            log_w_here = float(log_w[state])
    return states.ravel()[:n]
