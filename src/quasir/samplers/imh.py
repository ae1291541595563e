"""Independent Metropolis-Hastings, Algorithm 3 of the paper (`al:IMH`)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from quasir.blocks import BLOCK, root_seed
from quasir.draws import Draws, draw_blocks
from quasir.errors import InputError
from quasir.levels import check_count, number
from quasir.progress import Progress, progress_of
from quasir.samplers.approximate import Chain, ran_out, stuck
from quasir.samplers.collect import warn_if_hopeless
from quasir.samplers.qrs import MOST_BLOCKS
from quasir.samplers.schedule import Schedule
from quasir.typing import Array, Proposal, Seed, Target

__all__ = ["IMH", "chain_states", "log_move"]


class IMH:
    """A Markov chain that proposes from q whatever its state, with p as stationary law.

    From x it moves to x' ~ q with probability min(1, w(x')/w(x)), where w = P/q. The uniform
    that decides is the draw's own, so live proposals and stored draws give the same chain.

    Parameters
    ----------
    target, proposal : Target, Proposal
        P and q.
    burn_in : int
        Steps before the first that counts.
    thin : int
        Keep every so manieth state.
    reset : int, optional
        Instead: a fresh chain of so many proposals for each sample, which is its last state.
        The samples are then i.i.d.
    bound : float, optional
        M with p(x) <= M q(x) for all x, p being normalised, where it is known: the distance to p
        is then bounded.

    Notes
    -----
    Algorithm 3 divides by w(x), which is 0 where the first draw has P(x) = 0. Here the chain
    starts at the first draw with P(x) > 0, so no state ever has P(x) = 0. Its output begins
    after the first step, as in Algorithm 3.

    A footnote of appendix F has TVD(p, pi^(n)) <= 2 (1 - 1/M)^n after n steps, with TVD defined
    as half the L1 distance. The factor 2 belongs to the L1 distance: each step has
    K(x, .) >= p/M whatever x is, so that TVD(p, pi^(n)) <= (1 - 1/M)^n from any start
    (Mengersen and Tweedie 1996), and the printed bound holds with room to spare. The start,
    drawn from q >= p/M, counts as a step. `Chain.tvd_bound` is (1 - 1/M)^k, k being the
    proposals up to the first sample.

    Examples
    --------
    >>> from scipy import stats
    >>> import quasir as qr
    >>> target, proposal = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))
    >>> chain = qr.samplers.IMH(target, proposal, burn_in=100, thin=10).sample(1000, seed=1)
    >>> len(chain), chain.proposals, chain.distance.split(":")[0]
    (1000, 10101, 'unknown')
    """

    def __init__(
        self,
        target: Target,
        proposal: Proposal,
        burn_in: int = 0,
        thin: int = 1,
        reset: int | None = None,
        bound: float | None = None,
    ) -> None:
        self.target, self.proposal = target, proposal
        self.schedule = Schedule(burn_in, thin, reset)
        self.bound = None if bound is None else number("bound", bound)
        if self.bound is not None and not self.bound >= 1:
            raise InputError(
                f"bound is {bound!r}, but must be at least 1: p(x) <= M q(x) for all x, both "
                "normalised, holds for no smaller M."
            )
        self._log_beta: float | None = None

    def sample(
        self,
        n: int,
        seed: Seed = None,
        max_proposals: int | None = None,
        batch_size: int | None = None,
        progress: Progress = False,
    ) -> Chain:
        """Return n samples; they are those that `replay` gives on draws of the same seed.

        The parameters are those of `QRS.sample`.

        Raises
        ------
        BudgetExceeded
            When `max_proposals` were made; its ``samples`` holds those found.
        """
        check_count("n", n)
        if max_proposals is not None:
            check_count("max_proposals", max_proposals)
        root, walk, block = root_seed(seed), _Walk(self.schedule, n, self._log_beta), 0
        report = progress_of(progress, "found")
        while walk.count < n:
            if max_proposals is not None and walk.seen >= max_proposals:
                raise ran_out(self._chain(walk), n, "proposals")
            blocks = walk.blocks_for(MOST_BLOCKS)
            walk.add(
                draw_blocks(
                    self.target, self.proposal, root, block, blocks, max_proposals, batch_size
                )
            )
            block += blocks
            report(walk.count, n, walk.proposals)
            if not walk.started:
                warn_if_hopeless(0, n, walk.proposals)
        return self._chain(walk)

    def replay(self, draws: Draws, n: int | None = None) -> Chain:
        """Run on stored draws, and return the first n samples, or all that come out.

        Raises
        ------
        BudgetExceeded
            Where the draws give fewer than n; its ``samples`` holds those.
        """
        if n is not None:
            check_count("n", n)
        walk = _Walk(self.schedule, n, self._log_beta)
        walk.add(draws)
        chain = self._chain(walk)
        if n is not None and walk.count < n:
            raise ran_out(chain, n, "draws")
        return chain

    def _chain(self, walk: _Walk) -> Chain:
        found = walk.found
        tvd_bound = 1.0 if self.bound is None else (1 - 1 / self.bound) ** self.schedule.first
        alone = self.schedule.reset is not None
        return Chain(
            items=found.items,
            log_p=found.log_p,
            log_q=found.log_q,
            proposals=walk.proposals,
            distance=self._distance(tvd_bound),
            features=found.features,
            doubts=() if alone else stuck(walk.longest_stay, walk.steps),
            steps=walk.steps,
            moves=walk.moves,
            independent=alone,
            tvd_bound=tvd_bound,
        )

    def _distance(self, tvd_bound: float) -> str:
        k = self.schedule.first
        if self.bound is None:
            return (
                f"unknown: the law of a chain's state number {k:,} tends to p as the chain grows, "
                "but can be neither scored nor compared with p (appendix F). QRS tells its "
                "distance; bound=M bounds this one where p <= M q is known."
            )
        return (
            f"TVD <= {tvd_bound:.3g}: (1 - 1/M)^{k} with M = {self.bound:g}, for each sample by "
            "itself; often far above the distance itself, which is unknown."
        )


def log_move(log_w_from: Array, log_w_to: Array) -> Array:
    """Return the log of the probability to move, min(1, w(x')/w(x)): line 4 of Algorithm 3.

    `chain_states` moves exactly where log u is below this.
    """
    return np.minimum(0.0, log_w_to - log_w_from)


def chain_states(log_w: Array, log_alpha: Array, log_w_here: float = -math.inf) -> NDArray[np.intp]:
    """Return the state after each candidate: its place, or -1 for the state before all of them.

    Parameters
    ----------
    log_w : array
        Log of P/q of each candidate.
    log_alpha : array
        log_w - log u, u being the uniform that decides on it; +inf forces a move.
    log_w_here : float
        Of the state before the first candidate; -inf where there is none.

    Notes
    -----
    The chain moves to candidate j when alpha_j > w of its state, since u < w_j/w. Let a second
    chain begin with a state of weight 0. Whenever the first moves, the second moves too, its
    weight being no larger, and from then on they are one: a chain's course depends on its past
    only up to its next move. So the candidates are cut into sqrt(n) rows, all of which run at
    once from a weight of 0; each row then keeps the state it is entered with up to the first
    candidate that this state moves to, and what was computed from there on. No step costs more
    than a few vector operations on sqrt(n) numbers, whatever the acceptance rate.
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


class _Walk:
    """A chain, or one chain after another, over pieces of draws.

    With a beta the candidates are the draws that QRS accepts, each of weight max(w, beta).
    """

    def __init__(self, schedule: Schedule, n: int | None, log_beta: float | None) -> None:
        self.schedule, self.n, self.log_beta = schedule, n, log_beta
        self.count = self.seen = self.proposals = self.steps = self.moves = 0
        self._candidates = self._done = self._stay = self.longest_stay = 0
        self._parts: list[Draws] = []
        self._here: Draws | None = None
        self._log_w = -math.inf

    @property
    def started(self) -> bool:
        """Whether a draw with P(x) > 0 has been seen."""
        return self._here is not None

    @property
    def found(self) -> Draws:
        """The samples."""
        return Draws.concatenate(self._parts)

    def blocks_for(self, most: int) -> int:
        """Return how many blocks are expected to hold the samples that are missing."""
        assert self.n is not None
        missing = self.schedule.states_for(self.n)
        if self.schedule.reset is None:
            missing -= self._done
        else:
            missing -= self.schedule.reset * self.count + self._done
        filtered = self.log_beta is not None and self.seen > 0
        rate = max(self._candidates, 1) / self.seen if filtered else 1.0
        return int(min(max(1, math.ceil(missing / rate / BLOCK)), most))

    def add(self, piece: Draws) -> None:
        """Go on over a piece of draws."""
        if piece.items is None:
            piece = replace(piece, items=np.arange(self.seen, self.seen + len(piece)))
        log_w, log_alpha = piece.log_ratio, piece.log_alpha
        places = np.arange(len(piece))
        if self.log_beta is not None:
            places = piece.accepted(log_beta=self.log_beta)
            log_w, log_alpha = np.maximum(log_w[places], self.log_beta), log_alpha[places]
        possible = log_w > -np.inf
        starts, samples, done = self.schedule.cut(possible, self._done)
        if self.n is not None:
            samples = samples[: self.n - self.count]
        log_alpha = log_alpha.copy()
        log_alpha[starts] = np.inf
        states = chain_states(log_w, log_alpha, self._log_w)
        full = self.n is not None and self.count + len(samples) == self.n
        self._count_steps(states, starts, int(samples[-1]) + 1 if full else len(states))
        self.proposals = self.seen + (int(places[samples[-1]]) + 1 if full else len(piece))
        self.seen += len(piece)
        self._candidates += len(places)
        self._take(piece, places, states, samples)
        self.count += len(samples)
        self._done = done
        if len(states) and states[-1] >= 0:
            self._here = piece.take(places[states[-1:]])
            self._log_w = float(log_w[states[-1]])

    def _take(
        self,
        piece: Draws,
        places: NDArray[np.intp],
        states: NDArray[np.intp],
        samples: NDArray[np.intp],
    ) -> None:
        """Keep the samples; those of a state from before this piece are copies of that."""
        own = states[samples]
        before = int((own < 0).sum())
        if before:
            assert self._here is not None
            self._parts.append(self._here.take(np.zeros(before, np.intp)))
        if before < len(own) or not self._parts:
            self._parts.append(piece.take(places[own[before:]]))

    def _count_steps(self, states: NDArray[np.intp], starts: NDArray[np.intp], stop: int) -> None:
        """Count steps and moves up to `stop`; candidates that wait for a start are none."""
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
