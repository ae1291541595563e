"""Empirical supremum rejection sampling (Caffo, Booth and Davison 2002)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from quasir.core.arguments import check_count
from quasir.core.formatting import level_text
from quasir.core.progress import Progress, progress_of
from quasir.core.streams import BLOCK, DrawStreams
from quasir.core.types import Array, Proposal, Seed, Target
from quasir.draws.draw_blocks import draw_blocks
from quasir.draws.draws import Draws
from quasir.samplers.loop import warn_if_hopeless
from quasir.samplers.qrs import MOST_BLOCKS
from quasir.samplers.results import Approximate, ran_out

__all__ = ["Climbed", "EmpiricalSupremum", "running_supremum"]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Climbed(Approximate):
    """Samples of rejection sampling whose beta climbed.

    Attributes
    ----------
    log_betas : array
        The level that each sample was accepted at: that one is from p_beta at that level.
    log_beta : float
        The largest ratio seen.
    """

    log_betas: Array
    log_beta: float


class EmpiricalSupremum:
    """Rejection sampling with the largest ratio seen so far as beta.

    Parameters
    ----------
    target, proposal : Target, Proposal
        P and q.

    Notes
    -----
    A ratio above all before it raises beta and is accepted. Early samples are accepted at a
    low beta and follow q rather than p; where P/q is bounded, beta tends to its supremum and
    late samples follow p.

    Examples
    --------
    >>> import quasir as qr
    >>> target, proposal = qr.Table({"a": 0.5, "b": 0.5}), qr.Table({"a": 0.9, "b": 0.1})
    >>> samples = qr.EmpiricalSupremum(target, proposal).sample(100, seed=0)
    >>> round(float(np.exp(samples.log_beta)), 6)
    5.0
    """

    def __init__(self, target: Target, proposal: Proposal) -> None:
        self.target, self.proposal = target, proposal

    def sample(
        self,
        n: int,
        seed: Seed = None,
        max_proposals: int | None = None,
        batch_size: int | None = None,
        progress: Progress = False,
    ) -> Climbed:
        """Return n samples; the parameters are those of `QRS.sample`."""
        check_count("n", n)
        if max_proposals is not None:
            check_count("max_proposals", max_proposals)
        streams, climb, block = DrawStreams.of(seed), _Climb(n), 0
        report = progress_of(progress, "accepted")
        while climb.count < n:
            if max_proposals is not None and climb.proposals >= max_proposals:
                raise ran_out(climb.samples(), n, "proposals")
            blocks = climb.blocks_for(n)
            climb.add(
                draw_blocks(
                    self.target, self.proposal, streams, block, blocks, max_proposals, batch_size
                )
            )
            block += blocks
            report(climb.count, n, climb.proposals)
            warn_if_hopeless(climb.count, n, climb.proposals)
        return climb.samples()

    def replay(self, draws: Draws, n: int | None = None) -> Climbed:
        """Return the samples among stored draws: the first n, or all."""
        if n is not None:
            check_count("n", n)
        climb = _Climb(n)
        climb.add(draws)
        if n is not None and climb.count < n:
            raise ran_out(climb.samples(), n, "draws")
        return climb.samples()


def running_supremum(log_ratio: Array, log_beta: float = -math.inf) -> Array:
    """Return log beta at each draw: the largest log ratio up to it, that draw included.

    Examples
    --------
    >>> running_supremum(np.array([0.0, 2.0, 1.0]))
    array([0., 2., 2.])
    """
    climbed: Array = np.maximum(np.maximum.accumulate(log_ratio), log_beta)
    return climbed


class _Climb:
    """Samples so far, and the supremum so far."""

    def __init__(self, n: int | None) -> None:
        self.n, self.count, self.proposals, self.log_beta = n, 0, 0, -math.inf
        self._parts: list[Draws] = []
        self._log_betas: list[Array] = []

    def blocks_for(self, n: int) -> int:
        """Return how many blocks are expected to hold the samples that are missing."""
        if not self.proposals:
            return 1
        rate = max(self.count, 1) / self.proposals
        return int(min(max(1, math.ceil((n - self.count) / rate / BLOCK)), MOST_BLOCKS))

    def add(self, piece: Draws) -> None:
        """Take what is accepted of a piece."""
        if piece.items is None:
            piece = replace(piece, items=np.arange(len(piece)))
        log_betas = running_supremum(piece.log_ratio, self.log_beta)
        accepted = np.flatnonzero(piece.log_alpha > log_betas)
        proposed = len(piece)
        if self.n is not None and self.count + len(accepted) >= self.n:
            accepted = accepted[: self.n - self.count]
            proposed = int(accepted[-1]) + 1
        self._parts.append(piece.take(accepted))
        self._log_betas.append(log_betas[accepted])
        self.count += len(accepted)
        self.proposals += proposed
        self.log_beta = float(log_betas[proposed - 1])

    def samples(self) -> Climbed:
        """Return the samples so far."""
        draws = Draws.concatenate(self._parts)
        return Climbed(
            items=draws.items,
            log_p=draws.log_p,
            log_q=draws.log_q,
            proposals=self.proposals,
            distance=(
                "unknown: each sample is from p_beta at the largest ratio seen before it, which "
                f"rose to {level_text(self.log_beta)}, and an item of a larger ratio may not have "
                "been seen. QRS at a fixed beta tells its distance."
            ),
            features=draws.features,
            log_betas=np.concatenate(self._log_betas),
            log_beta=self.log_beta,
        )
