"""Sampling at a given beta, for `QRS`, `RS` and `RejectionControl` (Algorithm 1, `al:QRS`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from quasir.core.arguments import MOST, check_optional_count
from quasir.core.items import as_items
from quasir.core.optional import offered
from quasir.core.progress import Progress
from quasir.core.scores import log_prob_of, score
from quasir.core.streams import BLOCK, DrawStreams, Purpose, derived_seed
from quasir.core.types import Array, Items, Proposal, Seed, Target
from quasir.draws.acceptance import log_acceptance, log_p_beta
from quasir.draws.draw_blocks import draw_blocks
from quasir.draws.draws import Draws
from quasir.samplers.loop import blocks_for, check_sizes, collect, collect_stored
from quasir.samplers.results import Samples

__all__ = ["AtBeta", "enumerate_log_z_beta"]

NORMALISER_BLOCKS = 16
"""Blocks drawn to estimate Z_beta for `log_prob` if it is not known yet."""

Check = Callable[[Draws], None]


def take_any(piece: Draws) -> None:
    """Accept every ratio."""


@dataclass
class AtBeta:
    """P, q and beta, and the normaliser of p_beta once it is known."""

    target: Target
    proposal: Proposal
    log_beta: float
    _log_z_beta: float | None = field(default=None, init=False)

    def sample(
        self,
        n: int,
        seed: Seed,
        max_proposals: int | None,
        batch_size: int | None,
        progress: Progress,
        check: Check = take_any,
    ) -> Samples:
        """Return the first n draws that beta accepts; `check` is called with each piece first."""
        n = check_sizes(n, max_proposals, batch_size)
        return collect(
            _Accepted(self, n, check),
            self.target,
            self.proposal,
            n,
            seed,
            max_proposals=max_proposals,
            batch_size=batch_size,
            progress=progress,
        )

    def replay(self, draws: Draws, n: int | None, check: Check = take_any) -> Samples:
        """Return the samples among stored draws: the first n, or all."""
        n = check_optional_count("n", n, most=MOST)
        return collect_stored(_Accepted(self, n, check), draws, n)

    def log_prob(self, items: Items) -> Array:
        """Return log p_beta(x), Eq. 1 (`eq:p_beta`)."""
        items = as_items(items)
        log_p = score(self.target, items)
        log_q = log_prob_of(self.proposal, items)
        if self._log_z_beta is None:
            self._log_z_beta = self._enumerated()
        if self._log_z_beta is None:
            found = _Accepted(self, None, take_any)
            streams = DrawStreams(derived_seed(0, Purpose.NORMALISE))
            found.add(draw_blocks(self.target, self.proposal, streams, 0, NORMALISER_BLOCKS))
            self._log_z_beta = found.log_z_beta
        return log_p_beta(log_p, log_q, self.log_beta) - self._log_z_beta

    def normaliser(self, estimated: float) -> float:
        """Return log Z_beta: exact if the support can be listed, else the first estimate made."""
        if self._log_z_beta is None:
            exact = self._enumerated()
            self._log_z_beta = estimated if exact is None else exact
        return self._log_z_beta

    def _enumerated(self) -> float | None:
        return enumerate_log_z_beta(self.target, self.proposal, self.log_beta)


class _Accepted:
    """The draws accepted so far at one beta, and the sum of all acceptance probabilities."""

    verb = "accepted"

    def __init__(self, level: AtBeta, n: int | None, check: Check) -> None:
        self.level, self.n, self.check = level, n, check
        self.count = self.seen = self.proposals = 0
        self._accepted: list[Draws] = []
        self._sum = 0.0

    @property
    def in_sight(self) -> int:
        """Samples found."""
        return self.count

    def next_stop(self) -> int | None:
        assert self.n is not None
        if self.count >= self.n:
            return None
        blocks = blocks_for(self.n - self.count, self.count, self.proposals)
        return self.seen + blocks * BLOCK

    def add(self, piece: Draws) -> None:
        self.check(piece)
        log_beta = self.level.log_beta
        accepted = piece.accepted(log_beta=log_beta)
        self.proposals = self.seen + len(piece)
        if self.n is not None and self.count + len(accepted) >= self.n:
            accepted = accepted[: self.n - self.count]
            self.proposals = self.seen + int(accepted[-1]) + 1
        self._accepted.append(piece.take(accepted))
        self.count += len(accepted)
        self.seen += len(piece)
        self._sum += float(np.exp(log_acceptance(piece.log_ratio, log_beta)).sum())

    @property
    def log_z_beta(self) -> float:
        """Log of beta times the mean acceptance probability (Eqs. 2 and 6)."""
        if not self._sum > 0:
            return -math.inf
        return self.level.log_beta + math.log(self._sum / self.seen)

    def result(self) -> Samples:
        draws, log_beta = Draws.concatenate(self._accepted), self.level.log_beta
        log_z_beta = self.level.normaliser(self.log_z_beta)
        return Samples(
            items=draws.items,
            log_p=draws.log_p,
            log_q=draws.log_q,
            proposals=self.proposals,
            features=draws.features,
            log_p_beta=log_p_beta(draws.log_p, draws.log_q, log_beta) - log_z_beta,
            log_beta=log_beta,
            log_z_beta=log_z_beta,
        )


def enumerate_log_z_beta(target: Target, proposal: Proposal, log_beta: float) -> float | None:
    """Return log Z_beta summed over the proposal's support, or None if that cannot be listed."""
    support = offered(proposal, "support")
    if support is None:
        return None
    log_p, log_q = score(target, support), log_prob_of(proposal, support)
    return float(np.logaddexp.reduce(log_p_beta(log_p, log_q, log_beta)))
