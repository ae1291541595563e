"""QRS with a given acceptance rate: Algorithm 2 (`al:QRS_incremental`, appendix E)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from quasir.core.arguments import MOST, as_rate
from quasir.core.formatting import level_text
from quasir.core.streams import BLOCK
from quasir.draws.acceptance import accepts, log_z_beta
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.samplers.base import CollectingSampler, Collector, check_draws, fields_at_beta
from quasir.samplers.qrs import enumerate_log_z_beta
from quasir.samplers.results import Samples

__all__ = ["IncrementalQRS"]


@dataclass(eq=False, repr=False)
class IncrementalQRS(CollectingSampler[Samples]):
    """Find the largest beta that keeps an acceptance rate, and n samples from its p_beta.

    N = n/ar proposals are drawn, and the n with the largest alpha = P(x)/(q(x) u) are kept; beta
    is the next largest alpha. At most about 2n draws are held at a time: memory is O(n).

    Parameters
    ----------
    target, proposal : Target, Proposal
        P and q.
    acceptance_rate : float
        Samples per proposal, in (0, 1].

    Notes
    -----
    This is Algorithm 2 (`al:QRS_incremental`) as its prose describes it; the pseudo-code takes the
    quantile from the wrong end, and also keeps beta below the largest ratio seen. Given beta, the
    n draws above it are i.i.d. from p_beta: choosing beta from the same draws adds no bias.

    If fewer than n + 1 of the N draws have P(x) > 0, the rate is out of reach. Proposals then
    continue until n are found, beta is 0 (``log_beta = -inf``), the samples are from q filtered to
    the support of P (q_proj of appendix D), and `warnings` says so.

    Examples
    --------
    >>> from scipy import stats
    >>> import quasir as qr
    >>> sampler = qr.IncrementalQRS(qr.from_scipy(stats.poisson(11)),
    ...                             qr.from_scipy(stats.poisson(10)), acceptance_rate=0.5)
    >>> samples = sampler.sample(1000, seed=1)
    >>> len(samples), samples.proposals, round(samples.beta)
    (1000, 2000, 2)
    """

    acceptance_rate: float
    verb = "kept"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.acceptance_rate = as_rate(self.acceptance_rate)

    def collector(self, n: int | None) -> Collector[Samples]:
        """Return a collector of the n best of n/acceptance_rate draws."""
        assert n is not None
        wanted = n / self.acceptance_rate * (1 + 1e-12)
        if wanted > MOST:
            raise InputError(f"{n:,} samples need {wanted:.3g} proposals: ask for a higher rate.")
        return BestDraws(self, n, max(n, math.floor(wanted)))

    def replay(self, draws: Draws, n: int | None = None) -> Samples:
        """Return the samples among stored draws: n from the first n/acceptance_rate, or all."""
        if n is not None:
            return super().replay(draws, n)
        draws = check_draws(draws)
        wanted = math.floor(len(draws) * self.acceptance_rate * (1 + 1e-12))
        best = BestDraws(self, max(1, wanted), len(draws))
        best.add(draws)
        return best.result()


class BestDraws(Collector[Samples]):
    """The n best of `enough` draws so far, and the next best, whose alpha is beta."""

    def __init__(self, sampler: IncrementalQRS, n: int, enough: int) -> None:
        super().__init__(n)
        self.sampler, self.wanted, self.enough = sampler, n, enough
        self.held = self.possible = 0
        self.largest_ratio = self._floor = -math.inf

    def next_stop(self) -> int | None:
        if self.seen < self.enough:
            return self.enough
        return None if self.possible >= self.wanted else (self.seen // BLOCK + 1) * BLOCK

    def add(self, piece: Draws) -> None:
        possible, missing = np.flatnonzero(piece.log_p > -np.inf), self.wanted - self.possible
        nth = 0
        if missing > 0:
            nth = int(possible[missing - 1]) + 1 if missing <= len(possible) else len(piece)
        used = max(self.enough - self.seen, nth)
        if used <= 0:
            return
        if used < len(piece):
            piece = piece.take(np.arange(used))
        log_alpha = piece.log_alpha
        self.seen += len(piece)
        self.possible += int((log_alpha > -np.inf).sum())
        self.count = min(self.possible, self.wanted)
        self.largest_ratio = max(self.largest_ratio, float(piece.log_ratio.max()))
        kept = piece.take(np.flatnonzero(accepts(log_alpha, self._floor)))
        self._kept.append(kept)
        self.held += len(kept)
        # Pruning costs time in proportion to the draws held, so it waits until they have doubled.
        if self.held > 2 * (self.wanted + 1):
            self._prune()

    def _prune(self) -> Draws:
        held = self.kept
        if len(held) > self.wanted + 1:
            log_alpha = held.log_alpha
            best = np.argpartition(log_alpha, -(self.wanted + 1))[-(self.wanted + 1) :]
            # Later draws below the smallest alpha that is kept are not needed.
            self._floor = float(log_alpha[best].min())
            held = held.take(np.sort(best))
        self._kept, self.held = [held], len(held)
        return held

    def result(self) -> Samples:
        draws, log_beta = self._prune(), -math.inf
        if len(draws) > self.wanted:
            log_alpha = draws.log_alpha
            worst = int(np.argmin(log_alpha))
            log_beta = float(log_alpha[worst])
            draws = draws.take(np.delete(np.arange(len(draws)), worst))
        parts = self.sampler.target, self.sampler.proposal
        log_z = enumerate_log_z_beta(*parts, log_beta)
        if log_z is None:
            log_z = log_z_beta(log_beta, max(len(draws), 1) / max(self.seen, 1))
        warnings: tuple[str, ...] = ()
        if log_beta == -math.inf:
            warnings = (
                f"An acceptance rate of {self.sampler.acceptance_rate:g} is out of reach: only "
                f"{self.possible:,} of {self.seen:,} proposals had P(x) > 0. The samples are "
                "from the proposal filtered to the target's support (beta = 0).",
            )
        elif log_beta > self.largest_ratio:
            warnings = (
                f"beta = {level_text(log_beta)} is above every ratio seen, the largest being "
                f"{level_text(self.largest_ratio)}: a higher acceptance rate may give the same "
                "samples for less.",
            )
        fields = fields_at_beta(draws, self.seen, log_beta, log_z, *parts)
        return Samples(**fields, warnings=warnings)
