"""The pool of draws to train on, weighted by P(x)/m(x).

The draws come from several proposals q_1, ..., q_K, n_k from each. Each is weighted as if it came
from their deterministic mixture m(x) = sum_k (n_k/N) q_k(x) (the balance heuristic of Veach and
Guibas 1995). This is unbiased for each fixed set of proposals, and the weight of a draw is never
far above its weight under the best proposal for it. It needs log q_k(x) of every proposal k on
every draw that is kept.

A proposal that was fitted to draws of the pool gives them too much probability, so they get too
little weight: the better the proposals have memorised a draw, the less it counts. That is harmless
in training, but no estimate is made from such draws: see `quasir.tuning.evaluation`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array, Items
from quasir.draws.draws import Draws
from quasir.text.texts import Texts

__all__ = ["Pool", "thinned"]

Score = Callable[[Items], Array]


class Pool:
    """Draws of several proposals, each draw scored by all proposals.

    All draws with P(x) > 0 are kept. Of the others some are kept, and each of those stands for
    several.

    Attributes
    ----------
    items : Texts
    log_p : array (kept,)
        log P(x); -inf for impossible draws.
    log_q : array (kept, proposals)
        log q_k(x) of every proposal.
    stands_for : array (kept,)
        Number of draws that each one stands for; 1 if P(x) > 0.
    rounds : array (kept,)
        The round of each draw.
    drawn : array (rounds, proposals)
        Number of draws of each proposal in each round, kept or not.
    features : dict of arrays
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
        for k, score in scorers.items():
            left = np.flatnonzero(np.isnan(columns[:, k]))
            if len(left):
                columns[left, k] = score(draws.items.take(left))
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


def thinned(draws: Draws, rng: np.random.Generator, least: int = 100) -> tuple[Draws, Array]:
    """Return all draws with P(x) > 0 and as many of the others, and how many each stands for.

    Of the k impossible draws, j random ones are kept, and each stands for k/j draws, so sums over
    them keep their expectation. At least `least` are kept if there are that many.

    Examples
    --------
    >>> draws = Draws.from_arrays(log_p=[0.0, *[-np.inf] * 8], log_q=np.zeros(9))
    >>> kept, stands_for = thinned(draws, np.random.default_rng(0), least=2)
    >>> len(kept), stands_for
    (3, array([1., 4., 4.]))
    """
    possible = np.flatnonzero(draws.log_p > -np.inf)
    impossible = np.flatnonzero(draws.log_p == -np.inf)
    j = min(len(impossible), max(len(possible), least))
    chosen = np.sort(rng.choice(impossible, size=j, replace=False))
    stands_for = np.ones(len(possible) + j)
    stands_for[len(possible) :] = len(impossible) / max(j, 1)
    return draws.take(np.concatenate([possible, chosen])), stands_for
