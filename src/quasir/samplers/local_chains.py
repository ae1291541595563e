"""Chains of local moves, many at once, each with its own random numbers (appendix G)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import check_count
from quasir.core.items import take
from quasir.core.progress import Progress, Report, progress_of
from quasir.core.scores import score
from quasir.core.streams import BLOCK, DrawStreams, Purpose, root_seed, stream
from quasir.core.types import Array, Items, Seed
from quasir.draws.draw_blocks import draw_blocks
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.samplers.base import (
    Request,
    Sampler,
    Schedule,
    budget_exceeded,
    check_draws,
    stuck,
    warn_if_hopeless,
)
from quasir.samplers.results import ChainSamples
from quasir.targets.product import Product

__all__ = ["LocalSampler"]

CHAINS_AT_ONCE = 256  # chains stepped at once by default
STEPS_AT_ONCE = 64  # steps for which a chain draws its random numbers together

UNKNOWN = (
    "unknown: the distribution of a chain of local moves tends to p as the chain grows, but can be "
    "neither scored nor compared with p (appendix G). QRS estimates its distance."
)

States: TypeAlias = Any  # a list or array of states, one for each chain
Move: TypeAlias = tuple[States, NDArray[np.bool_], Array, Array]
"""New states, which of them differ, and the log probabilities of the moves and their reverses."""


def log_metropolis(
    log_p_from: Array, log_p_to: Array, log_forward: Array, log_backward: Array
) -> Array:
    """Return log min(1, P(x') q(x|x') / (P(x) q(x'|x))); `log_forward` is log q(x'|x)."""
    return np.minimum(0.0, (log_p_to - log_p_from) + (log_backward - log_forward))


def choose_column(probs: Array, uniforms: Array) -> NDArray[np.int64]:
    """Return, for each row of probabilities, the column that its uniform in [0, 1) selects."""
    below = np.cumsum(probs, axis=1)
    chosen: NDArray[np.int64] = (below <= (uniforms * below[:, -1])[:, None]).sum(axis=1)
    return chosen


@dataclass(eq=False, repr=False)
class LocalSampler(Sampler[ChainSamples]):
    """Chains of moves: chain c starts at the c-th draw with P(x) > 0, and has its own generator."""

    _: KW_ONLY
    burn_in: int = 0
    thin: int = 1
    reset: int | None = None
    chains: int = 1
    uniforms: ClassVar[int]  # how many random numbers one step of one chain takes

    def __post_init__(self) -> None:
        super().__post_init__()
        self.schedule = Schedule(self.burn_in, self.thin, self.reset)
        self.chains = check_count("chains", self.chains)

    @abstractmethod
    def starts(self, items: Items) -> tuple[States, Array]:
        """Return items as states, and their log P; -inf where no chain can start."""

    @abstractmethod
    def propose(self, states: States, uniforms: Array) -> Move:
        """Return a move from each state."""

    @abstractmethod
    def decode(self, states: Sequence[Any]) -> Items:
        """Return states as items."""

    def step(
        self, states: States, log_p: Array, uniforms: Array
    ) -> tuple[States, Array, NDArray[np.bool_]]:
        """Return states, log P and which chains moved; the last uniform decides on a move."""
        new, changed, forward, backward = self.propose(states, uniforms)
        log_p_new = np.full(len(new), -np.inf)
        asked = np.flatnonzero(changed & (backward > -np.inf))
        arrays = isinstance(new, np.ndarray)
        if len(asked):
            chosen = new[asked] if arrays else [new[i] for i in asked]
            log_p_new[asked] = score(self.target, self.decode(chosen))
        log_accept = log_metropolis(log_p, log_p_new, forward, backward)
        moved = np.log1p(-uniforms[:, -1]) <= log_accept
        if arrays:
            kept: States = np.where(moved[:, None], new, states)
        else:
            kept = [y if m else x for x, y, m in zip(states, new, moved, strict=True)]
        return kept, np.where(moved, log_p_new, log_p), moved

    def _sample(self, asked: Request, starts: Draws | None = None) -> ChainSamples:
        chains = asked.n if self.schedule.reset is not None else min(self.chains, asked.n)
        report = progress_of(asked.progress, self.verb)
        run = _Run(self, asked.n, chains, root_seed(asked.seed), asked.max_proposals, report)
        try:
            run.begin(starts)
            at_once = asked.batch_size or CHAINS_AT_ONCE
            for first in range(0, chains, at_once):
                run.walk(range(first, min(first + at_once, chains)))
        except _OutOfBudget:
            raise budget_exceeded(run.result(), asked.n, run.proposals) from None
        return run.result()

    def sample_from(
        self, starts: Draws, n: int, seed: Seed = None, progress: Progress = None
    ) -> ChainSamples:
        """Return n samples of chains that start at the stored `starts` with P(x) > 0.

        Nothing is drawn from the proposal. The other parameters are those of `sample`.
        """
        request = Request(check_count("n", n), seed, progress=progress)
        return self._sample(request, check_draws(starts))


@dataclass
class _Run:
    """One call of `LocalSampler.sample`: its chains give the n samples in turn."""

    sampler: LocalSampler
    n: int
    chains: int
    root: int
    budget: int | None
    report: Report
    proposals: int = 0
    steps: int = 0
    moves: int = 0
    warnings: tuple[str, ...] = ()
    starts: list[tuple[Any, float]] = field(default_factory=list)
    found: dict[int, tuple[Any, float]] = field(default_factory=dict)

    def begin(self, stored: Draws | None) -> None:
        if stored is not None:
            self.proposals = self._take_starts(stored)
            if len(self.starts) < self.chains:
                raise InputError(
                    f"{self.chains:,} chains need a start each, but the {len(stored):,} stored "
                    f"draws hold {len(self.starts):,} with P(x) > 0: give more draws."
                )
        target, proposal, block = self.sampler.target, self.sampler.proposal, 0
        while len(self.starts) < self.chains:
            if self.budget is not None and self.proposals >= self.budget:
                raise _OutOfBudget
            # The first few draws are mostly enough; whole blocks are drawn only if they are not.
            probing = not self.proposals and self.chains < BLOCK
            stop = self.chains if probing else (block + 1) * BLOCK
            stop = stop if self.budget is None else min(stop, self.budget)
            draws = draw_blocks(target, proposal, DrawStreams(self.root), block, 1, stop)
            if block == 0:
                self.starts = []
            self.proposals = block * BLOCK + self._take_starts(draws)
            block += not probing
            if not self.starts:
                warn_if_hopeless(0, self.chains, self.proposals)

    def _take_starts(self, draws: Draws) -> int:
        """Take starts from draws until each chain has one; return the draws that this took."""
        used = len(draws)
        possible = np.flatnonzero(draws.log_p > -np.inf)
        while len(possible) and len(self.starts) < self.chains:
            indices, possible = np.split(possible, [self.chains - len(self.starts)])
            found = self.sampler.starts(take(draws.items, indices))
            for index, state, value in zip(indices, *found, strict=True):
                if value > -np.inf:
                    self.starts.append((state, float(value)))
                    used = int(index) + 1 if len(self.starts) == self.chains else used
        return used

    def walk(self, group: range) -> None:
        schedule, uniforms = self.sampler.schedule, self.sampler.uniforms
        wanted = np.array([len(range(c, self.n, self.chains)) for c in group])
        states: States = [self.starts[c][0] for c in group]
        log_p = np.array([self.starts[c][1] for c in group], dtype=np.float64)
        generators = [stream(self.root, Purpose.WALK, c) for c in group]
        stay, longest, step = np.zeros(len(group), np.int64), 0, 0
        ahead = np.empty((len(group), 0, uniforms))
        for sample in range(int(wanted.max())):
            # Chains that have given all their samples leave; they are the last of the group.
            left = int((wanted > sample).sum())
            states, log_p, stay, ahead = states[:left], log_p[:left], stay[:left], ahead[:left]
            for _ in range(schedule.states_for(1) - 1 if sample == 0 else schedule.thin):
                if self.budget is not None and self.proposals + left > self.budget:
                    raise _OutOfBudget
                if step % STEPS_AT_ONCE == 0:
                    self.report(len(self.found), self.n, self.proposals)
                    shape = STEPS_AT_ONCE, uniforms
                    ahead = np.stack([rng.random(shape) for rng in generators[:left]])
                states, log_p, moved = self.sampler.step(
                    states, log_p, ahead[:, step % STEPS_AT_ONCE]
                )
                step += 1
                self.proposals += left
                self.steps += left
                self.moves += int(moved.sum())
                stay = np.where(moved, 0, stay + 1)
                longest = max(longest, int(stay.max()))
            for c, state, value in zip(group, states, log_p, strict=False):
                self.found[sample * self.chains + c] = state, float(value)
            self.report(len(self.found), self.n, self.proposals)
        if schedule.reset is None and not self.warnings:
            self.warnings = stuck(longest, step)

    def result(self) -> ChainSamples:
        found, target = [self.found[i] for i in sorted(self.found)], self.sampler.target
        items = self.sampler.decode([state for state, _ in found])
        features = target.features if isinstance(target, Product) and found else ()
        return ChainSamples(
            items=items,
            log_p=np.array([value for _, value in found], dtype=np.float64),
            proposals=self.proposals,
            distance=UNKNOWN,
            features={feature.name: feature(items) for feature in features},
            warnings=self.warnings,
            steps=self.steps,
            moves=self.moves,
            independent=self.sampler.schedule.reset is not None,
        )


class _OutOfBudget(Exception):
    pass
