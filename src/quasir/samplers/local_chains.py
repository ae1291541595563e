"""Many chains of local moves at once, each with its own random numbers (appendix G)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from quasir.core.items import take
from quasir.core.progress import Report
from quasir.core.streams import BLOCK, DrawStreams, Purpose, root_seed, stream
from quasir.core.types import Array, Items, Proposal, Seed, Target
from quasir.draws.draw_blocks import draw_blocks
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.samplers.loop import budget_exceeded, warn_if_hopeless
from quasir.samplers.results import ChainSamples
from quasir.samplers.schedule import Schedule, stuck
from quasir.targets.product import Product

__all__ = ["LocalChains", "States", "choose_column", "log_metropolis"]

STEPS_AT_ONCE = 64
"""Steps for which a chain draws its random numbers together; it does not change the chain."""

UNKNOWN = (
    "unknown: the law of a chain of local moves tends to p as the chain grows, but can be neither "
    "scored nor compared with p (appendix G). QRS estimates its distance."
)

States: TypeAlias = Any
"""A list or array of states, one for each chain."""
Kernel: TypeAlias = Callable[[States, Array, Array], tuple[States, Array, NDArray[np.bool_]]]
"""Takes states, their log P and a row of uniforms each; returns states, log P, which moved."""
Starts: TypeAlias = Callable[[Items], tuple[States, Array]]
"""Takes items of the proposal; returns states and log P, -inf where no chain can start."""


def log_metropolis(
    log_p_from: Array, log_p_to: Array, log_forward: Array, log_backward: Array
) -> Array:
    """Return log min(1, P(x') q(x|x') / (P(x) q(x'|x))), the rule of Metropolis and Hastings.

    `log_forward` is log q(x'|x), `log_backward` is log q(x|x'). The result is -inf where
    q(x|x') = 0 or P(x') = 0.
    """
    return np.minimum(0.0, (log_p_to - log_p_from) + (log_backward - log_forward))


def choose_column(probs: Array, uniforms: Array) -> NDArray[np.int64]:
    """Return, for each row of probabilities, the column that its uniform in [0, 1) selects.

    Examples
    --------
    >>> choose_column(np.array([[0.0, 0.5, 0.0, 0.5], [0.2, 0.3, 0.5, 0.0]]), np.array([0.0, 0.9]))
    array([1, 2])
    """
    below = np.cumsum(probs, axis=1)
    chosen: NDArray[np.int64] = (below <= (uniforms * below[:, -1])[:, None]).sum(axis=1)
    return chosen


@dataclass(kw_only=True)
class LocalChains:
    """Runs chains that start at draws of the global proposal.

    Attributes
    ----------
    target, proposal : Target, Proposal
    kernel : callable
        One step; see `Kernel`.
    uniforms : int
        How many random numbers one step of one chain takes.
    starts : callable
        See `Starts`.
    schedule : Schedule
    chains : int
        Chains that run side by side and give the samples in turn; with a reset, each sample
        has its own.
    stored : Draws, optional
        Stored draws of the proposal to start at, instead of new ones.

    Notes
    -----
    Chain c starts at the c-th draw of the proposal with P(x) > 0, and has its own generator, made
    from the seed and c. So the result does not depend on how many chains run at once.
    """

    target: Target
    proposal: Proposal
    kernel: Kernel
    uniforms: int
    starts: Starts
    schedule: Schedule
    chains: int
    stored: Draws | None = None
    proposals: int = field(default=0, init=False)
    steps: int = field(default=0, init=False)
    moves: int = field(default=0, init=False)
    doubts: tuple[str, ...] = field(default=(), init=False)

    def run(
        self,
        n: int,
        seed: Seed,
        decode: Callable[[list[Any]], Items],
        at_once: int,
        budget: int | None,
        report: Report,
    ) -> ChainSamples:
        """Return n samples, one from each chain in turn; `at_once` chains run together."""
        root = root_seed(seed)
        chains = n if self.schedule.reset is not None else min(self.chains, n)
        found: dict[int, tuple[Any, float]] = {}
        try:
            states, log_p = self._begin(chains, root, budget)
            for first in range(0, chains, at_once):
                group = range(first, min(first + at_once, chains))
                self._walk(
                    states[first:], log_p[first:], group, chains, n, root, budget, found, report
                )
        except _OutOfBudget:
            raise budget_exceeded(self._chain(found, decode), n, self.proposals) from None
        return self._chain(found, decode)

    def _begin(self, chains: int, root: int, budget: int | None) -> tuple[list[Any], Array]:
        """Return one start for each chain: the proposal's first draws with P(x) > 0."""
        if self.stored is not None:
            return self._begin_stored(self.stored, chains)
        states: list[Any] = []
        log_p: list[float] = []
        block = 0
        while len(states) < chains:
            if budget is not None and self.proposals >= budget:
                raise _OutOfBudget
            # The first few draws are mostly enough; whole blocks are drawn only if they are not.
            probing = not self.proposals and chains < BLOCK
            stop = chains if probing else (block + 1) * BLOCK
            stop = stop if budget is None else min(stop, budget)
            draws = draw_blocks(self.target, self.proposal, DrawStreams(root), block, 1, stop)
            states, log_p = ([], []) if block == 0 else (states, log_p)
            used = len(draws)
            possible = np.flatnonzero(draws.log_p > -np.inf)
            while len(possible) and len(states) < chains:
                places, possible = np.split(possible, [chains - len(states)])
                for place, state, value in zip(
                    places, *self.starts(take(draws.items, places)), strict=True
                ):
                    if value > -np.inf:
                        states.append(state)
                        log_p.append(float(value))
                        used = int(place) + 1 if len(states) == chains else used
            self.proposals = block * BLOCK + used
            block += not probing
            if not states:
                warn_if_hopeless(0, chains, self.proposals)
        return states, np.array(log_p, dtype=np.float64)

    def _begin_stored(self, stored: Draws, chains: int) -> tuple[list[Any], Array]:
        """Return one start for each chain: the first stored draws with P(x) > 0."""
        states: list[Any] = []
        log_p: list[float] = []
        possible = np.flatnonzero(stored.log_p > -np.inf)
        while len(states) < chains:
            places, possible = np.split(possible, [min(chains - len(states), len(possible))])
            if not len(places):
                raise InputError(
                    f"{chains:,} chains need a start each, but the {len(stored):,} stored draws "
                    f"hold {len(states):,} that a chain can start at: give more, or ask for fewer "
                    "samples."
                )
            for place, state, value in zip(
                places, *self.starts(take(stored.items, places)), strict=True
            ):
                if value > -np.inf:
                    states.append(state)
                    log_p.append(float(value))
                    self.proposals = int(place) + 1
        return states, np.array(log_p, dtype=np.float64)

    def _walk(
        self,
        states: States,
        log_p: Array,
        group: range,
        chains: int,
        n: int,
        root: int,
        budget: int | None,
        found: dict[int, tuple[Any, float]],
        report: Report,
    ) -> None:
        """Run a group of chains until chain c has given the samples c, c + chains, ..."""
        wanted = np.array([len(range(c, n, chains)) for c in group])
        states, log_p = states[: len(group)], log_p[: len(group)]
        generators = [stream(root, Purpose.WALK, c) for c in group]
        stay, longest, step = np.zeros(len(group), np.int64), 0, 0
        ahead = np.empty((len(group), 0, self.uniforms))
        for sample in range(int(wanted.max())):
            # Chains that have given all their samples leave; they are the last of the group.
            left = int((wanted > sample).sum())
            states, log_p, stay, ahead = states[:left], log_p[:left], stay[:left], ahead[:left]
            for _ in range(self.schedule.first - 1 if sample == 0 else self.schedule.thin):
                if budget is not None and self.proposals + left > budget:
                    raise _OutOfBudget
                if step % STEPS_AT_ONCE == 0:
                    report(len(found), n, self.proposals)
                    shape = STEPS_AT_ONCE, self.uniforms
                    ahead = np.stack([rng.random(shape) for rng in generators[:left]])
                numbers = ahead[:, step % STEPS_AT_ONCE]
                states, log_p, moved = self.kernel(states, log_p, numbers)
                step += 1
                self.proposals += left
                self.steps += left
                self.moves += int(moved.sum())
                stay = np.where(moved, 0, stay + 1)
                longest = max(longest, int(stay.max()))
            for c, state, value in zip(group, states, log_p, strict=False):
                found[sample * chains + c] = state, float(value)
            report(len(found), n, self.proposals)
        if self.schedule.reset is None and not self.doubts:
            self.doubts = stuck(longest, step)

    def _chain(self, found: dict[int, tuple[Any, float]], decode: Any) -> ChainSamples:
        order = sorted(found)
        items = decode([found[i][0] for i in order])
        features = self.target.features if isinstance(self.target, Product) and order else ()
        return ChainSamples(
            items=items,
            log_p=np.array([found[i][1] for i in order], dtype=np.float64),
            proposals=self.proposals,
            distance=UNKNOWN,
            features={feature.name: feature(items) for feature in features},
            doubts=self.doubts,
            steps=self.steps,
            moves=self.moves,
            independent=self.schedule.reset is not None,
        )


class _OutOfBudget(Exception):
    """The budget of proposals is used up."""
