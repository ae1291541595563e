"""Chains over draws, whose candidates do not depend on the chain's state."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from quasir.core.streams import BLOCK
from quasir.core.types import Array
from quasir.draws.draws import Draws
from quasir.samplers.results import ChainSamples
from quasir.samplers.schedule import Schedule

__all__ = ["IndependentChain", "chain_states"]


def chain_states(log_w: Array, log_alpha: Array, log_w_here: float = -math.inf) -> NDArray[np.intp]:
    """Return the state after each candidate: its place, or -1 for the state before the first.

    Parameters
    ----------
    log_w : array
        Log of P/q of each candidate.
    log_alpha : array
        log_w - log u, where u is the uniform that decides on it; +inf forces a move.
    log_w_here : float
        Log of P/q of the state before the first candidate; -inf if there is none.

    Notes
    -----
    The chain moves to candidate j if alpha_j > w, the weight of its state, since then u < w_j/w.
    Let a second chain start with weight 0. Its weight is never larger, so it moves whenever the
    first moves, and from the first such move on the two are equal. So the candidates are cut into
    sqrt(n) rows, and all rows run at once from weight 0. Then, row by row, the state before a row
    is kept up to the first candidate that it moves to; from there on the computed states hold.
    Each step is a few vector operations on sqrt(n) numbers, for any acceptance rate.
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


class IndependentChain:
    """A chain, or one chain after another, over pieces of draws.

    With a beta the candidates are the draws that QRS accepts, each of weight max(w, beta).

    Parameters
    ----------
    schedule : Schedule
    n : int or None
        Samples wanted; None takes all.
    log_beta : float or None
    finish : callable
        Returns the sampler's result from this chain.
    """

    verb = "found"

    def __init__(
        self,
        schedule: Schedule,
        n: int | None,
        log_beta: float | None,
        finish: Callable[[IndependentChain], ChainSamples],
    ) -> None:
        self.schedule, self.n, self.log_beta, self._finish = schedule, n, log_beta, finish
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

    @property
    def in_sight(self) -> int:
        """All samples, once the chain has started; none before."""
        return (self.n or 1) if self.started else 0

    def result(self) -> ChainSamples:
        """Return the samples so far."""
        return self._finish(self)

    def next_stop(self) -> int | None:
        """Return the number of draws that are expected to give all samples."""
        assert self.n is not None
        if self.count >= self.n:
            return None
        missing = self.schedule.states_for(self.n)
        if self.schedule.reset is None:
            missing -= self._done
        else:
            missing -= self.schedule.reset * self.count + self._done
        filtered = self.log_beta is not None and self.seen > 0
        rate = max(self._candidates, 1) / self.seen if filtered else 1.0
        return self.seen + BLOCK * max(1, math.ceil(missing / rate / BLOCK))

    def add(self, piece: Draws) -> None:
        """Continue the chain over a piece of draws."""
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
        """Keep the samples; those before the first move of this piece repeat the earlier state."""
        own = states[samples]
        before = int((own < 0).sum())
        if before:
            assert self._here is not None
            self._parts.append(self._here.take(np.zeros(before, np.intp)))
        if before < len(own) or not self._parts:
            self._parts.append(piece.take(places[own[before:]]))

    def _count_steps(self, states: NDArray[np.intp], starts: NDArray[np.intp], stop: int) -> None:
        """Count steps and moves up to `stop`; candidates before a start are not steps."""
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
