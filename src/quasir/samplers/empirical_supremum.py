"""Empirical supremum rejection sampling (Caffo, Booth and Davison 2002)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from quasir.core.arguments import MOST, check_optional_count
from quasir.core.formatting import level_text
from quasir.core.progress import Progress
from quasir.core.scores import check_pair
from quasir.core.streams import BLOCK
from quasir.core.types import Array, Proposal, Seed, Target
from quasir.draws.acceptance import accepts
from quasir.draws.draws import Draws
from quasir.samplers.describe import describe
from quasir.samplers.loop import blocks_for, check_sizes, collect, collect_stored
from quasir.samplers.results import ClimbingSamples

__all__ = ["EmpiricalSupremum"]


class EmpiricalSupremum:
    """Rejection sampling with the largest ratio seen so far as beta.

    Parameters
    ----------
    target, proposal : Target, Proposal
        P and q.

    Notes
    -----
    A draw whose ratio is larger than all before it raises beta and is accepted. Early samples are
    accepted at a low beta and follow q rather than p. Where P/q is bounded, beta tends to its
    supremum, and late samples follow p.

    Examples
    --------
    >>> import quasir as qr
    >>> target, proposal = qr.Table({"a": 0.5, "b": 0.5}), qr.Table({"a": 0.9, "b": 0.1})
    >>> samples = qr.EmpiricalSupremum(target, proposal).sample(100, seed=0)
    >>> round(float(np.exp(samples.log_beta)), 6)
    5.0
    """

    def __init__(self, target: Target, proposal: Proposal) -> None:
        check_pair(target, proposal)
        self.target, self.proposal = target, proposal

    def __repr__(self) -> str:
        return describe(self)

    def sample(
        self,
        n: int,
        seed: Seed = None,
        max_proposals: int | None = None,
        batch_size: int | None = None,
        progress: Progress = None,
    ) -> ClimbingSamples:
        """Return n samples; the parameters are those of `QRS.sample`."""
        n = check_sizes(n, max_proposals, batch_size)
        return collect(
            _Climb(n),
            self.target,
            self.proposal,
            n,
            seed,
            max_proposals=max_proposals,
            batch_size=batch_size,
            progress=progress,
        )

    def replay(self, draws: Draws, n: int | None = None) -> ClimbingSamples:
        """Return the samples among stored draws: the first n, or all."""
        n = check_optional_count("n", n, most=MOST)
        return collect_stored(_Climb(n), draws, n)


def running_supremum(log_ratio: Array, log_beta: float = -math.inf) -> Array:
    """Return log beta at each draw: the largest log ratio among it and the draws before it.

    Examples
    --------
    >>> running_supremum(np.array([0.0, 2.0, 1.0]))
    array([0., 2., 2.])
    """
    climbed: Array = np.maximum(np.maximum.accumulate(log_ratio), log_beta)
    return climbed


class _Climb:
    """The samples and the supremum so far."""

    verb = "accepted"

    def __init__(self, n: int | None) -> None:
        self.n, self.log_beta = n, -math.inf
        self.count = self.seen = self.proposals = 0
        self._parts: list[Draws] = []
        self._log_betas: list[Array] = []

    @property
    def in_sight(self) -> int:
        """Samples found."""
        return self.count

    def next_stop(self) -> int | None:
        """Return the number of draws that are expected to give all samples."""
        assert self.n is not None
        if self.count >= self.n:
            return None
        return self.seen + BLOCK * blocks_for(self.n - self.count, self.count, self.proposals)

    def add(self, piece: Draws) -> None:
        """Take the accepted draws of a piece."""
        if piece.items is None:
            piece = replace(piece, items=np.arange(len(piece)))
        log_betas = running_supremum(piece.log_ratio, self.log_beta)
        accepted = np.flatnonzero(accepts(piece.log_alpha, log_betas))
        proposed = len(piece)
        if self.n is not None and self.count + len(accepted) >= self.n:
            accepted = accepted[: self.n - self.count]
            proposed = int(accepted[-1]) + 1
        self._parts.append(piece.take(accepted))
        self._log_betas.append(log_betas[accepted])
        self.count += len(accepted)
        self.proposals = self.seen + proposed
        self.seen += len(piece)
        self.log_beta = float(log_betas[proposed - 1])

    def result(self) -> ClimbingSamples:
        """Return the samples so far."""
        draws = Draws.concatenate(self._parts)
        return ClimbingSamples(
            items=draws.items,
            log_p=draws.log_p,
            log_q=draws.log_q,
            proposals=self.proposals,
            distance=(
                "unknown: each sample is from p_beta at the largest ratio seen before it, which "
                f"rose to {level_text(self.log_beta)}, and an item of a larger ratio may not have "
                "been seen. QRS at a fixed beta estimates its distance."
            ),
            features=draws.features,
            log_betas=np.concatenate(self._log_betas),
            log_beta=self.log_beta,
        )
