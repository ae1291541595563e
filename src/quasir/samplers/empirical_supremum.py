"""Empirical supremum rejection sampling (Caffo, Booth and Davison 2002)."""

from __future__ import annotations

import math

import numpy as np

from quasir.core.formatting import level_text
from quasir.core.types import Array
from quasir.draws.acceptance import accepts
from quasir.draws.draws import Draws
from quasir.samplers.base import CollectingSampler, Collector, sample_columns
from quasir.samplers.results import ClimbingSamples


class EmpiricalSupremum(CollectingSampler[ClimbingSamples]):
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

    def collector(self, n: int | None) -> Collector[ClimbingSamples]:
        """Return a collector of accepted draws."""
        return _Climb(n)


class _Climb(Collector[ClimbingSamples]):
    """The samples and the supremum so far."""

    def __init__(self, n: int | None) -> None:
        super().__init__(n)
        self.log_beta = -math.inf
        self._log_betas: list[Array] = []

    def add(self, piece: Draws) -> None:
        first = self.seen
        log_betas = np.maximum(np.maximum.accumulate(piece.log_ratio), self.log_beta)
        accepted = np.flatnonzero(accepts(piece.log_alpha, log_betas))
        self._log_betas.append(log_betas[self.keep(piece, accepted)])
        self.log_beta = float(log_betas[self.proposals - first - 1])

    def result(self) -> ClimbingSamples:
        return ClimbingSamples(
            **sample_columns(self.kept, self.proposals),
            distance=(
                "unknown: each sample is from p_beta at the largest ratio seen before it, which "
                f"rose to {level_text(self.log_beta)}, and an item of a larger ratio may not have "
                "been seen. QRS at a fixed beta estimates its distance."
            ),
            log_betas=np.concatenate(self._log_betas),
            log_beta=self.log_beta,
        )
