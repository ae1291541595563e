"""QRS with a given acceptance rate instead of a beta: Algorithm 2 (`al:QRS_incremental`).

It is in appendix E of the paper, `appx:incremental_pruning`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from quasir.core.arguments import MOST, as_rate, check_optional_count
from quasir.core.formatting import level_text
from quasir.core.progress import Progress
from quasir.core.scores import check_pair
from quasir.core.streams import BLOCK
from quasir.core.types import Proposal, Seed, Target
from quasir.draws.acceptance import accepts, log_p_beta
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.samplers.at_beta import enumerate_log_z_beta
from quasir.samplers.describe import describe
from quasir.samplers.loop import budget_exceeded, check_draws, check_sizes, collect
from quasir.samplers.results import Samples

__all__ = ["BestDraws", "IncrementalQRS"]


class IncrementalQRS:
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
    This is Algorithm 2 (`al:QRS_incremental`) as its prose describes it: beta is as high as
    possible while a share `acceptance_rate` of all alphas lies above it. The pseudo-code takes
    the quantile from the wrong end, and also keeps beta below the largest ratio seen, which stops
    early with a beta that depends on a few draws; neither is done here. Given beta, which is the
    (n + 1)-th largest of N alphas, the n draws above it are i.i.d. from p_beta: choosing beta
    from the same draws adds no bias.

    If fewer than n + 1 of the N draws have P(x) > 0, the rate is out of reach, since no beta
    accepts more than q(Supp P). Proposals then continue until n are found, beta is 0
    (``log_beta = -inf``), the samples are from q filtered to the support of P (q_proj of appendix
    D), and `doubts` says so.

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

    def __init__(self, target: Target, proposal: Proposal, acceptance_rate: float) -> None:
        check_pair(target, proposal)
        self.target, self.proposal = target, proposal
        self.acceptance_rate = as_rate(acceptance_rate)

    def __repr__(self) -> str:
        return describe(self, f" at acceptance rate {self.acceptance_rate:.4g}")

    def sample(
        self,
        n: int,
        seed: Seed = None,
        max_proposals: int | None = None,
        batch_size: int | None = None,
        progress: Progress = None,
    ) -> Samples:
        """Return exactly n samples, and the beta they were accepted at.

        The parameters are those of `QRS.sample`; ``n/acceptance_rate`` proposals are made.
        """
        n = check_sizes(n, max_proposals, batch_size)
        return collect(
            BestDraws(self, n, self._enough(n)),
            self.target,
            self.proposal,
            n,
            seed,
            max_proposals=max_proposals,
            batch_size=batch_size,
            progress=progress,
        )

    def replay(self, draws: Draws, n: int | None = None) -> Samples:
        """Return the samples among stored draws: n from the first n/acceptance_rate, or all.

        They are the samples that `sample` gives with the same seed.

        Raises
        ------
        BudgetExceeded
            If the draws are too few for n; its ``samples`` holds those found.
        """
        check_draws(draws)
        n = check_optional_count("n", n, most=MOST)
        if n is None:
            wanted = max(1, math.floor(len(draws) * self.acceptance_rate * (1 + 1e-12)))
            best = BestDraws(self, wanted, len(draws))
        else:
            best = BestDraws(self, n, self._enough(n))
        best.add(draws.take(np.arange(min(best.enough, len(draws)))))
        if best.next_stop() is not None and best.seen < len(draws):
            best.add(draws.take(np.arange(best.seen, len(draws))))
        samples = best.result()
        if n is not None and best.next_stop() is not None:
            raise budget_exceeded(samples, n, len(draws), best.verb, "draws")
        return samples

    def _enough(self, n: int) -> int:
        """Return the number of proposals from which the n best are kept."""
        wanted = n / self.acceptance_rate * (1 + 1e-12)
        if wanted > MOST:
            raise InputError(
                f"{n:,} samples at an acceptance rate of {self.acceptance_rate:g} need "
                f"{wanted:.3g} proposals, more than the {MOST:,} that can be numbered: ask for a "
                "higher rate."
            )
        return max(n, math.floor(wanted))


class BestDraws:
    """The draws with the largest alphas so far, in the order they were drawn.

    `sampler` keeps the n best of `enough` draws, and the next one, whose alpha is beta. If fewer
    than n of these have P(x) > 0, proposals continue until n have.
    """

    verb = "kept"

    def __init__(self, sampler: IncrementalQRS, n: int, enough: int) -> None:
        self.sampler, self.n, self.enough = sampler, n, enough
        self.seen = self.possible = 0
        self.largest_ratio = -math.inf
        self._parts: list[Draws] = []
        self.held = 0
        self._floor = -math.inf

    @property
    def count(self) -> int:
        """Samples so far."""
        return min(self.possible, self.n)

    @property
    def in_sight(self) -> int:
        """Samples so far."""
        return self.count

    def next_stop(self) -> int | None:
        """Return the number of draws to see next, in all: `enough`, then block by block."""
        if self.seen < self.enough:
            return self.enough
        return None if self.possible >= self.n else (self.seen // BLOCK + 1) * BLOCK

    def add(self, piece: Draws) -> None:
        """Take a piece; past `enough`, only up to the n-th draw with P(x) > 0."""
        log_alpha = piece.log_alpha
        if self.seen >= self.enough:
            possible = np.flatnonzero(log_alpha > -np.inf)[: self.n - self.possible]
            if self.possible + len(possible) >= self.n:
                piece = piece.take(np.arange(possible[-1] + 1))
                log_alpha = piece.log_alpha
        self.seen += len(piece)
        self.possible += int((log_alpha > -np.inf).sum())
        self.largest_ratio = max(self.largest_ratio, float(piece.log_ratio.max()))
        kept = piece.take(np.flatnonzero(accepts(log_alpha, self._floor)))
        self._parts.append(kept)
        self.held += len(kept)
        # Pruning costs time in proportion to the draws held, so it waits until they have doubled.
        if self.held > 2 * (self.n + 1):
            self._prune()

    def _prune(self) -> Draws:
        """Keep the n + 1 best."""
        held = Draws.concatenate(self._parts)
        if len(held) > self.n + 1:
            log_alpha = held.log_alpha
            best = np.argpartition(log_alpha, -(self.n + 1))[-(self.n + 1) :]
            # Later draws below the smallest alpha that is kept are not needed.
            self._floor = float(log_alpha[best].min())
            held = held.take(np.sort(best))
        self._parts, self.held = [held], len(held)
        return held

    def _split(self) -> tuple[Draws, float]:
        """Return the n best draws, and log beta: the next alpha, or -inf if there is none."""
        draws = self._prune()
        if len(draws) <= self.n:
            return draws, -math.inf
        log_alpha = draws.log_alpha
        worst = int(np.argmin(log_alpha))
        return draws.take(np.delete(np.arange(len(draws)), worst)), float(log_alpha[worst])

    def result(self) -> Samples:
        """Return the best draws as samples of p_beta, with their doubts."""
        draws, log_beta = self._split()
        log_rate = math.log(max(len(draws), 1) / max(self.seen, 1))
        if log_beta == -math.inf:
            log_z_beta, log_law = log_rate, draws.log_q
        else:
            exact = enumerate_log_z_beta(self.sampler.target, self.sampler.proposal, log_beta)
            log_z_beta = log_beta + log_rate if exact is None else exact
            log_law = log_p_beta(draws.log_p, draws.log_q, log_beta)
        return Samples(
            items=draws.items,
            log_p=draws.log_p,
            log_q=draws.log_q,
            proposals=self.seen,
            features=draws.features,
            doubts=tuple(self._doubts(log_beta)),
            log_p_beta=log_law - log_z_beta,
            log_beta=log_beta,
            log_z_beta=log_z_beta,
        )

    def _doubts(self, log_beta: float) -> Iterator[str]:
        if log_beta == -math.inf:
            yield (
                f"An acceptance rate of {self.sampler.acceptance_rate:g} is out of reach: only "
                f"{self.possible:,} of {self.seen:,} proposals had P(x) > 0. The samples are "
                "from the proposal filtered to the target's support (beta = 0). Ask for a lower "
                "rate, or use a better proposal."
            )
        if log_beta > self.largest_ratio:
            yield (
                f"beta = {level_text(log_beta)} is above every ratio seen, the largest being "
                f"{level_text(self.largest_ratio)}: a higher acceptance rate may give the same "
                "samples for less."
            )
