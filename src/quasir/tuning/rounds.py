"""Rounds of draws: drawn from the current proposal, scored by the target, put into pools, reused.

Draws of proposals q_1, ..., q_K are weighted by P(x)/m(x), with their deterministic mixture
m(x) = sum_k (n_k/N) q_k(x) (the balance heuristic of Veach and Guibas 1995).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.scores import score
from quasir.core.streams import Purpose, derived_seed, stream
from quasir.core.types import Array, Items, Proposal
from quasir.draws.draw import draw
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.estimation.estimate import kish_ess
from quasir.guides.vocabulary import same_tokenizer
from quasir.targets.product import Product
from quasir.text.texts import Texts
from quasir.tuning.policy import Checkpoints, Policy, Weights

__all__ = ["Rounds"]

if TYPE_CHECKING:
    from quasir.tuning.dpg import DPG

Score = Callable[[Items], Array]


class Pool:
    """Draws of several proposals, each scored by all of them; all with P(x) > 0, some others.

    `log_q` has a column for each proposal; `stands_for` is how many draws each stands for, 1 if
    P(x) > 0; `drawn` counts the draws of each round and proposal, kept or not.
    """

    ARRAYS = ("log_p", "log_q", "stands_for", "rounds", "drawn")

    def __init__(self, tokenizer: Any) -> None:
        self.items = Texts.of([], tokenizer)
        self.log_p, self.stands_for = np.empty(0), np.empty(0)
        self.log_q = np.empty((0, 0))
        self.rounds = np.empty(0, dtype=np.int64)
        self.drawn = np.zeros((0, 0))
        self.features: dict[str, NDArray[Any]] = {}

    def __len__(self) -> int:
        return len(self.log_p)

    @property
    def n(self) -> int:
        return int(self.drawn.sum())

    @property
    def possible(self) -> NDArray[np.bool_]:
        return self.log_p > -np.inf

    @property
    def log_m(self) -> Array:
        """Log of the mixture of the proposals, weighted by their numbers of draws."""
        given = self.drawn.sum(axis=0)
        some = given > 0
        log_share = np.log(given[some] / given.sum())
        mixed: Array = np.logaddexp.reduce(self.log_q[:, some] + log_share, axis=1)
        return mixed

    @property
    def log_weight(self) -> Array:
        return self.log_p - self.log_m

    @property
    def log_z(self) -> float:
        log_w = (self.log_weight + np.log(self.stands_for))[self.possible]
        return float(np.logaddexp.reduce(log_w)) - math.log(self.n)

    def add_proposal(self, score: Score) -> None:
        scored = np.asarray(score(self.items), dtype=np.float64) if len(self) else np.empty(0)
        self.log_q = np.column_stack([self.log_q, scored])
        self.drawn = np.column_stack([self.drawn, np.zeros(len(self.drawn))])

    def add(
        self,
        draws: Draws,
        drawn: int,
        stands_for: Array,
        proposal: int,
        scorers: Mapping[int, Score],
        round: int,
        log_base: Array | None = None,
    ) -> None:
        columns = np.full((len(draws), self.log_q.shape[1]), np.nan)
        if log_base is not None:
            columns[:, 0] = log_base
        columns[:, proposal] = draws.log_q
        for k, scorer in scorers.items():
            left = np.flatnonzero(np.isnan(columns[:, k]))
            if len(left):
                columns[left, k] = scorer(draws.items.take(left))
        self.items = Texts.concatenate([self.items, draws.items])
        self.log_p = np.concatenate([self.log_p, draws.log_p])
        self.log_q = np.concatenate([self.log_q, columns])
        self.stands_for = np.concatenate([self.stands_for, stands_for])
        self.rounds = np.concatenate([self.rounds, np.full(len(draws), round, dtype=np.int64)])
        missing = round + 1 - len(self.drawn)
        self.drawn = np.pad(self.drawn, ((0, max(missing, 0)), (0, 0)))
        self.drawn[round, proposal] += drawn
        for name, column in draws.features.items():
            before = self.features.get(name, np.empty(0, dtype=column.dtype))
            self.features[name] = np.concatenate([before, column])

    def forget(self, first: int, stop: int) -> None:
        """Drop rounds `first` to `stop` - 1; whole rounds, so that m stays correct."""
        kept = np.flatnonzero((self.rounds < first) | (self.rounds >= stop))
        self.items = self.items.take(kept)
        self.log_p, self.log_q = self.log_p[kept], self.log_q[kept]
        self.stands_for, self.rounds = self.stands_for[kept], self.rounds[kept]
        self.features = {name: column[kept] for name, column in self.features.items()}
        self.drawn[first:stop] = 0

    def to_dict(self) -> dict[str, Any]:
        arrays = {name: getattr(self, name) for name in self.ARRAYS}
        texts = {"ids": self.items.ids, "offsets": self.items.offsets}
        return texts | arrays | {"features": dict(self.features)}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any], tokenizer: Any) -> Pool:
        pool = cls(tokenizer)
        pool.items = Texts(np.asarray(state["ids"]), np.asarray(state["offsets"]), tokenizer)
        for name in cls.ARRAYS:
            setattr(pool, name, np.asarray(state[name]))
        pool.features = {name: np.asarray(column) for name, column in state["features"].items()}
        return pool


def thin(draws: Draws, rng: np.random.Generator, least: int = 100) -> tuple[Draws, Array]:
    """Return all draws with P(x) > 0 and as many of the others, and how many each stands for."""
    possible = np.flatnonzero(draws.log_p > -np.inf)
    impossible = np.flatnonzero(draws.log_p == -np.inf)
    j = min(len(impossible), max(len(possible), least))
    chosen = np.sort(rng.choice(impossible, size=j, replace=False))
    stands_for = np.ones(len(possible) + j)
    stands_for[len(possible) :] = len(impossible) / max(j, 1)
    return draws.take(np.concatenate([possible, chosen])), stands_for


SHARES = (0.45, 0.45, 0.1)
"""Shares of p, of the proposal and of m in the probabilities of draws, for centred weights."""


class Minibatches:
    """Minibatches of a pool, and the coefficients of their draws in the gradient of KL(p, pi).

    The gradient is -E_p[grad log pi] = -E_m[(p/m) grad log pi] (DPG, Khalifa et al. 2021). Since
    E_pi[grad log pi] = 0, the `centred` weight (p - pi)/m may replace p/m: its variance vanishes at
    the optimum, and it is negative for a text that pi memorises. Draw i, which stands for c_i of N,
    is taken with probability s_i, so its coefficient is c_i weight_i/(N s_i).
    """

    def __init__(self, pool: Pool, proposal: int, log_z: float, centred: bool) -> None:
        self.centred = centred
        self.n, self.stands_for, self.log_m = pool.n, pool.stands_for, pool.log_m
        self.log_p = pool.log_p - log_z
        mass = self.stands_for * np.exp(self.log_p - self.log_m)
        self.probability = mass / mass.sum()
        if centred:
            near = self.stands_for * np.exp(pool.log_q[:, proposal] - self.log_m)
            parts = (self.probability, near / near.sum(), self.stands_for / self.stands_for.sum())
            self.probability = sum(share * part for share, part in zip(SHARES, parts, strict=True))

    def take(self, size: int, rng: np.random.Generator) -> NDArray[np.intp]:
        cumulative = np.cumsum(self.probability)
        marks = (rng.random() + np.arange(size)) / size * cumulative[-1]
        # Rounding may put the last mark at the very end, where a draw may have probability 0.
        last = int(np.flatnonzero(self.probability)[-1])
        taken: NDArray[np.intp] = np.searchsorted(cumulative, marks, side="right")
        return taken.clip(max=last)

    def coefficients(self, index: NDArray[np.intp], log_pi: Array) -> Array:
        """Return the coefficients of the chosen draws; `log_pi` matters only for centred ones."""
        weight = np.exp(self.log_p[index] - self.log_m[index])
        if self.centred:
            weight = weight - np.exp(log_pi - self.log_m[index])
        counted: Array = self.stands_for[index] * weight / (self.n * self.probability[index])
        return counted


HELD_OUT = 0.2
"""Share of every round that is used for evaluation and never for training."""


class Rounds:
    """The draws of a run, in one pool for training and one held out, and their proposals."""

    COUNTS = ("count", "drawn", "made", "possible", "seconds", "proposals", "current", "first")

    def __init__(self, dpg: DPG, policy: Policy, checkpoints: Checkpoints, seed: int) -> None:
        self.dpg, self.policy, self.checkpoints, self.seed = dpg, policy, checkpoints, seed
        target, base, warm = dpg.target, dpg.base, dpg.warm_start
        # On the base, one pass scores both the target and proposal 0.
        on_base = isinstance(target, Product) and target.base is base
        self.product = target if isinstance(target, Product) and on_base else None
        self.tokenizer = base.tokenizer
        self.trained, self.held_out = Pool(base.tokenizer), Pool(base.tokenizer)
        self.count = self.drawn = self.made = self.possible = 0
        self.seconds = 0.0
        self.current = self.first = 0
        self._at_hand: dict[int, Proposal] = {0: base}
        if warm is not None:
            self._at_hand[1] = base.prompted(warm) if isinstance(warm, str) else warm
        self.proposals = len(self._at_hand)
        for _ in range(self.proposals):
            for pool in (self.trained, self.held_out):
                pool.add_proposal(lambda items: np.empty(0))

    @property
    def ess(self) -> float:
        """Kish's effective sample size of the draws to train on."""
        log_w = self.trained.log_weight[self.trained.possible]
        if not len(log_w):
            return 0.0
        w = np.exp(log_w - log_w.max())
        return kish_ess(float(w.sum()), float((w**2).sum()))

    def take_first(self, draws: Draws) -> None:
        """Use existing draws of the base as a first round."""
        if draws.items is None:
            raise InputError("the pool has no items, but the policy is trained on their token ids.")
        items = Texts.of([text.token_ids for text in draws.items], self.tokenizer)
        log_q = draws.log_q
        if self.product is not None:
            scores = self.product.scores(items, log_base=log_q)
            log_p, features = scores.log_p, scores.features
        else:
            log_p, features = score(self.dpg.target, items), {}
        scored = Draws.from_arrays(log_p=log_p, log_q=log_q, items=items, features=features)
        self._take(scored, 0, range(self.proposals))
        self.count += 1
        self.first = self.count

    def draw_first(self, n: int) -> None:
        """Draw a round of n from the base; if there is a warm start, half of it from there."""
        self._draw(n, range(self.proposals))
        self.first = self.count

    def draw(self, n: int) -> None:
        """Draw a round of n from the current proposal; forget old ones, but not the first ones."""
        self._draw(n, [self.current])
        sizes = np.bincount(self.trained.rounds, minlength=self.count)
        first, stop, left = self.first, self.first, len(self.trained)
        while stop < self.count - 1 and left > self.dpg.memory:
            left -= sizes[stop]
            stop += 1
        if self.trained.drawn[first:stop].sum() > 0:
            self.trained.forget(first, stop)
            self.held_out.forget(first, stop)

    def _draw(self, n: int, sources: Sequence[int]) -> None:
        size = -(-n // len(sources))
        for source in sources:
            began = time.perf_counter()
            own = derived_seed(self.seed, Purpose.TUNE_DRAW, self.count, source)
            draws = draw(self.dpg.target, self.proposal(source), size, seed=own, progress=False)
            self.seconds += time.perf_counter() - began
            self.made += size
            items = draws.items
            if not (isinstance(items, Texts) and same_tokenizer(items.tokenizer, self.tokenizer)):
                raise InputError(
                    "the warm start draws items that are not of the base's tokenizer: give a "
                    "CausalLM of the same tokenizer."
                )
            self._take(draws, source, sources)
        self.count += 1

    def _take(self, draws: Draws, source: int, sources: Sequence[int]) -> None:
        share = np.floor(np.arange(len(draws) + 1) * HELD_OUT)
        held_out = share[1:] > share[:-1]
        self.drawn += len(draws)
        self.possible += int((draws.log_p > -np.inf).sum())
        thinning = stream(self.seed, Purpose.TUNE_THIN, self.count, source)
        for pool, inside in ((self.trained, ~held_out), (self.held_out, held_out)):
            part = draws.take(np.flatnonzero(inside))
            kept, stands_for = thin(part, thinning)
            given = pool.drawn.sum(axis=0) if len(pool.drawn) else np.zeros(self.proposals)
            scorers = {
                k: self.proposal(k).log_prob
                for k in range(self.proposals)
                if k != source and (given[k] > 0 or k in sources)
            }
            log_base = None if self.product is None else kept.log_base
            pool.add(kept, len(part), stands_for, source, scorers, self.count, log_base)

    def adapt(self, weights: Weights) -> None:
        """Make the policy with these weights the proposal of later rounds."""
        self.checkpoints.save_proposal(self.proposals, weights)
        self._at_hand = {k: v for k, v in self._at_hand.items() if k < 2}
        self.current = self.proposals
        self.proposals += 1
        for pool in (self.trained, self.held_out):
            pool.add_proposal(self.proposal(self.current).log_prob)

    def proposal(self, number: int) -> Proposal:
        """Return a proposal by its number; the current one stays in memory."""
        if number in self._at_hand:
            return self._at_hand[number]
        proposal = self.policy.frozen(self.checkpoints.proposal(number))
        if number == self.current:
            self._at_hand[number] = proposal
        return proposal

    def to_dict(self) -> dict[str, Any]:
        """Return everything that the next round depends on."""
        pools = {"trained": self.trained.to_dict(), "held_out": self.held_out.to_dict()}
        return pools | {name: getattr(self, name) for name in self.COUNTS}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the state of `to_dict`."""
        self.trained = Pool.from_dict(state["trained"], self.tokenizer)
        self.held_out = Pool.from_dict(state["held_out"], self.tokenizer)
        for name in self.COUNTS:
            setattr(self, name, state[name])
