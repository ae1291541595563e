"""Rounds of draws: drawn from the current proposal, scored by the target, and put into pools."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from quasir.core.scores import score
from quasir.core.streams import Purpose, derived_seed, stream
from quasir.core.types import Proposal, Target
from quasir.draws.draw import draw
from quasir.draws.draws import Draws
from quasir.errors import InputError, TuningError
from quasir.targets.product import Product
from quasir.text.causal import CausalLM
from quasir.text.texts import Texts
from quasir.text.tokenizers import same_tokenizer
from quasir.tuning.checkpoint import Checkpoints
from quasir.tuning.evaluation import log_partition
from quasir.tuning.policy import Policy, Weights
from quasir.tuning.pool import Pool, thinned

__all__ = ["Rounds"]


class Rounds:
    """The draws of a run, in one pool for training and one held out, and their proposals.

    Proposal 0 is the base and proposal 1 the warm start, if there is one. The next ones are the
    policies that became the proposal, in order.

    Parameters
    ----------
    target, base, policy
    warm_start : Proposal or None
    checkpoints : Checkpoints
        Stores the weights of the proposals.
    seed : int
    hold_out : float
        Share of every round that is never trained on.
    memory : int
        Maximum number of draws to train on; old rounds are forgotten, the first ones never.
    everywhere : bool
        Whether the loss needs P(x) > 0 everywhere; then a draw with P(x) = 0 is an error.
    impossible : bool
        Whether to keep draws with P(x) = 0 for training.
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
        return log_partition(self.held_out)

    @property
    def ess(self) -> float:
        """Kish's effective sample size of the draws to train on."""
        log_w = self.trained.log_weight[self.trained.possible]
        if not len(log_w):
            return 0.0
        w = np.exp(log_w - log_w.max())
        return float(w.sum() ** 2 / (w**2).sum())

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
                kept, stands_for = thinned(part, thinning)
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
