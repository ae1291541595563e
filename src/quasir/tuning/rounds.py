"""Rounds of draws: drawn from the current proposal, scored by the target, and put into pools.

A pool weights its draws by P(x)/m(x). The draws come from several proposals q_1, ..., q_K, n_k from
each. Each is weighted as if it came from their deterministic mixture m(x) = sum_k (n_k/N) q_k(x)
(the balance heuristic of Veach and Guibas 1995). This is unbiased for each fixed set of proposals,
and the weight of a draw is never far above its weight under the best proposal for it. It needs log
q_k(x) of every proposal k on every draw that is kept.

A proposal that was fitted to draws of the pool gives them too much probability, so they get too
little weight: the better the proposals have memorised a draw, the less it counts. That is harmless
in training, but no estimate is made from such draws: see `evaluation`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.scores import score
from quasir.core.streams import Purpose, derived_seed, stream
from quasir.core.types import Array, Items, Proposal, Target
from quasir.draws.draw import draw
from quasir.draws.draws import Draws
from quasir.errors import InputError, TuningError
from quasir.estimation.estimate import kish_ess
from quasir.guides.vocabulary import same_tokenizer
from quasir.targets.product import Product
from quasir.text.causal import CausalLM
from quasir.text.texts import Texts
from quasir.tuning.checkpoint import Checkpoints
from quasir.tuning.policy import Policy, Weights

Score = Callable[[Items], Array]


class Pool:
    """Draws of several proposals, each draw scored by all proposals.

    All draws with P(x) > 0 are kept. Of the others some are kept, and each of those stands for
    several.

    The kept draws have `log_p`, `log_q` (a column for each proposal), `stands_for` (the number of
    draws that each stands for; 1 if P(x) > 0) and their round; `drawn` counts the draws of each
    round and proposal, kept or not.
    """

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
        """Number of draws made, kept or not."""
        return int(self.drawn.sum())

    @property
    def possible(self) -> NDArray[np.bool_]:
        """True for the kept draws with P(x) > 0."""
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
        """Log of P(x)/m(x)."""
        return self.log_p - self.log_m

    @property
    def log_z(self) -> float:
        """The estimate of log Z = log E_m[P/m]."""
        log_w = (self.log_weight + np.log(self.stands_for))[self.possible]
        return float(np.logaddexp.reduce(log_w)) - math.log(self.n)

    def add_proposal(self, score: Score) -> None:
        """Add a proposal, and score all draws by it."""
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
        """Add the kept ones of `drawn` draws from proposal number `proposal`.

        `scorers` score the draws by the other proposals, by number; a proposal without draws in
        the pool needs no scorer. `log_base` is log q of proposal 0 if it is known; NaN entries
        are computed.
        """
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
        """Return the arrays of the pool by name."""
        return {
            "ids": self.items.ids,
            "offsets": self.items.offsets,
            "log_p": self.log_p,
            "log_q": self.log_q,
            "stands_for": self.stands_for,
            "rounds": self.rounds,
            "drawn": self.drawn,
            "features": dict(self.features),
        }

    @classmethod
    def from_dict(cls, arrays: Mapping[str, Any], tokenizer: Any) -> Pool:
        """Make a pool from the arrays of `to_dict`."""
        pool = cls(tokenizer)
        pool.items = Texts(arrays["ids"], arrays["offsets"], tokenizer)
        pool.log_p, pool.log_q = arrays["log_p"], arrays["log_q"]
        pool.stands_for, pool.rounds = arrays["stands_for"], arrays["rounds"]
        pool.drawn, pool.features = arrays["drawn"], dict(arrays["features"])
        return pool


def thin(draws: Draws, rng: np.random.Generator, least: int = 100) -> tuple[Draws, Array]:
    """Return all draws with P(x) > 0 and as many of the others, and how many each stands for.

    Of the k impossible draws, j random ones are kept, and each stands for k/j draws, so sums over
    them keep their expectation. At least `least` are kept if there are that many.
    """
    possible = np.flatnonzero(draws.log_p > -np.inf)
    impossible = np.flatnonzero(draws.log_p == -np.inf)
    j = min(len(impossible), max(len(possible), least))
    chosen = np.sort(rng.choice(impossible, size=j, replace=False))
    stands_for = np.ones(len(possible) + j)
    stands_for[len(possible) :] = len(impossible) / max(j, 1)
    return draws.take(np.concatenate([possible, chosen])), stands_for


class Rounds:
    """The draws of a run, in one pool for training and one held out, and their proposals.

    Proposal 0 is the base and proposal 1 the warm start, if there is one. The next ones are the
    policies that became the proposal, in order.

    A share `hold_out` of every round is never trained on. At most `memory` draws are kept to train
    on: old rounds are forgotten, the first ones never. `everywhere` says that the loss needs
    P(x) > 0 everywhere, so that a draw with P(x) = 0 is an error; `impossible` says whether to keep
    draws with P(x) = 0 for training.
    """

    def __init__(
        self,
        target: Target,
        base: CausalLM,
        policy: Policy,
        *,
        warm_start: Proposal | None,
        checkpoints: Checkpoints,
        seed: int,
        hold_out: float,
        memory: int,
        everywhere: bool,
        impossible: bool,
    ) -> None:
        self.target, self.base, self.policy = target, base, policy
        self.warm_start, self.checkpoints, self.seed = warm_start, checkpoints, seed
        self.hold_out, self.memory = hold_out, memory
        self.everywhere, self.impossible = everywhere, impossible
        self.trained, self.held_out = Pool(base.tokenizer), Pool(base.tokenizer)
        self.count = self.drawn = self.made = self.possible = 0
        self.seconds = 0.0
        self.proposals = 1 if warm_start is None else 2
        self.current = self.first = 0
        self._at_hand: dict[int, Proposal] = {0: base}
        if warm_start is not None:
            self._at_hand[1] = warm_start
        for _ in range(self.proposals):
            for pool in (self.trained, self.held_out):
                pool.add_proposal(lambda items: np.empty(0))

    @property
    def _on_base(self) -> bool:
        """Whether the base of the target is proposal 0, so that one pass scores both."""
        return isinstance(self.target, Product) and self.target.base is self.base

    @property
    def log_z(self) -> float:
        """The running estimate of log Z, from all held-out draws."""
        return self.held_out.log_z

    @property
    def ess(self) -> float:
        """Kish's effective sample size of the draws to train on."""
        log_w = self.trained.log_weight[self.trained.possible]
        if not len(log_w):
            return 0.0
        w = np.exp(log_w - log_w.max())
        return kish_ess(float(w.sum()), float((w**2).sum()))

    @property
    def samples_per_second(self) -> float:
        """Draws made and scored per second."""
        return self.made / self.seconds if self.seconds else 0.0

    def take_first(self, draws: Draws) -> None:
        """Use existing draws of the base as a first round."""
        if draws.items is None:
            raise InputError("the pool has no items, but the policy is trained on their token ids.")
        items = Texts.of([text.token_ids for text in draws.items], self.base.tokenizer)
        known = draws.log_q
        if isinstance(self.target, Product) and self._on_base:
            scores = self.target.scores(items, log_base=known)
            log_p, features = scores.log_p, scores.features
        else:
            log_p, features = score(self.target, items), {}
        scored = Draws.from_arrays(log_p=log_p, log_q=known, items=items, features=features)
        self._take(scored, 0, range(self.proposals))
        self.count += 1
        self.first = self.count

    def draw_first(self, n: int) -> None:
        """Draw a round of n from the base; if there is a warm start, half of it from there."""
        self._draw(n, range(self.proposals))
        self.first = self.count

    def draw(self, n: int) -> None:
        """Draw a round of n from the current proposal."""
        self._draw(n, [self.current])
        self._forget()

    def _draw(self, n: int, sources: Sequence[int]) -> None:
        for source in sources:
            self._draw_from(source, -(-n // len(sources)), sources)
        self.count += 1

    def _draw_from(self, source: int, n: int, sources: Sequence[int]) -> None:
        began = time.perf_counter()
        own = derived_seed(self.seed, Purpose.TUNE_DRAW, self.count, source)
        draws = draw(self.target, self._proposal(source), n, seed=own, progress=False)
        self.seconds += time.perf_counter() - began
        self.made += n
        self._check(draws.items, source)
        self._take(draws, source, sources)

    def _take(self, draws: Draws, source: int, sources: Sequence[int]) -> None:
        """Put scored draws into the two pools."""
        n = len(draws)
        n_possible = int((draws.log_p > -np.inf).sum())
        if self.everywhere and n_possible < n:
            raise TuningError(
                f"the reverse KL(pi, p) is infinite: {n - n_possible:,} of {n:,} draws have "
                "P(x) = 0, and pi gives every text some probability. Use loss='kl', 'tv' or 'js'."
            )
        self.drawn += n
        self.possible += n_possible
        held_out = np.floor(np.arange(1, n + 1) * self.hold_out) > np.floor(
            np.arange(n) * self.hold_out
        )
        thinning = stream(self.seed, Purpose.TUNE_THIN, self.count, source)
        for pool, inside in ((self.trained, ~held_out), (self.held_out, held_out)):
            part = draws.take(np.flatnonzero(inside))
            if pool is self.trained and not self.impossible:
                kept = part.take(np.flatnonzero(part.log_p > -np.inf))
                stands_for = np.ones(len(kept))
            else:
                kept, stands_for = thin(part, thinning)
            given = pool.drawn.sum(axis=0) if len(pool.drawn) else np.zeros(self.proposals)
            scorers = {
                k: self._proposal(k).log_prob
                for k in range(self.proposals)
                if k != source and (given[k] > 0 or k in sources)
            }
            log_base = kept.log_base if self._on_base else None
            pool.add(kept, len(part), stands_for, source, scorers, self.count, log_base)

    def adapt(self, weights: Weights) -> None:
        """Make the policy with these weights the proposal of later rounds."""
        self.checkpoints.save_proposal(self.proposals, weights)
        self._at_hand = {k: v for k, v in self._at_hand.items() if k < 2}
        self.current = self.proposals
        self.proposals += 1
        for pool in (self.trained, self.held_out):
            pool.add_proposal(self._proposal(self.current).log_prob)

    def _proposal(self, number: int) -> Proposal:
        if number in self._at_hand:
            return self._at_hand[number]
        proposal = self.policy.frozen(self.checkpoints.proposal(number))
        if number == self.current:
            self._at_hand[number] = proposal
        return proposal

    def _forget(self) -> None:
        """Forget old rounds while more draws are kept than `memory`, but never the last one.

        The first rounds stay: draws from the base include texts that a tuned proposal has lost.
        """
        sizes = np.bincount(self.trained.rounds, minlength=self.count)
        stop = self.first
        while stop < self.count - 1 and len(self.trained) - sizes[self.first : stop].sum() > (
            self.memory
        ):
            stop += 1
        if self.trained.drawn[self.first : stop].sum() > 0:
            self.trained.forget(self.first, stop)
            self.held_out.forget(self.first, stop)

    def _check(self, items: Any, source: int) -> None:
        if isinstance(items, Texts) and same_tokenizer(items.tokenizer, self.base.tokenizer):
            return
        what = "the warm start" if source == 1 else "the base"
        raise InputError(
            f"{what} draws {type(items).__name__} items that are not of the base's tokenizer, but "
            "the policy is trained on its token ids. Give a CausalLM of the same tokenizer."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything that the next round depends on."""
        return {
            "trained": self.trained.to_dict(),
            "held_out": self.held_out.to_dict(),
            "count": self.count,
            "drawn": self.drawn,
            "made": self.made,
            "possible": self.possible,
            "seconds": self.seconds,
            "proposals": self.proposals,
            "current": self.current,
            "first": self.first,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the state of `to_dict`."""
        self.trained = Pool.from_dict(state["trained"], self.base.tokenizer)
        self.held_out = Pool.from_dict(state["held_out"], self.base.tokenizer)
        counts = ("count", "drawn", "made", "possible", "proposals", "current", "first")
        for name in (*counts, "seconds"):
            setattr(self, name, state[name])
