"""QRS with a wanted acceptance rate instead of a beta, Algorithm 2 of the paper."""

from __future__ import annotations

import math

import numpy as np

from quasir.core.arguments import as_rate, check_count
from quasir.core.formatting import level_text
from quasir.core.progress import Progress, progress_of
from quasir.core.streams import BLOCK, DrawStreams
from quasir.core.types import Proposal, Seed, Target
from quasir.draws.draw_blocks import draw_blocks
from quasir.draws.draws import Draws
from quasir.samplers.loop import out_of_budget, warn_if_hopeless
from quasir.samplers.qrs import MOST_BLOCKS, enumerate_log_z_beta
from quasir.samplers.samples import Samples

__all__ = ["IncrementalQRS"]


class IncrementalQRS:
    """Find the largest beta that keeps an acceptance rate, and n samples from its p_beta.

    N = n/ar proposals are drawn, and the n with the largest alpha = P(x)/(q(x) u) are kept;
    beta is the next alpha. Only the best 2n or so are ever held: memory is O(n).

    Parameters
    ----------
    target, proposal : Target, Proposal
        P and q.
    acceptance_rate : float
        In (0, 1]: samples per proposal.

    Notes
    -----
    This is Algorithm 2 (`al:QRS_incremental`) by its prose: beta is as high as it can be while
    a share `acceptance_rate` of all alphas lies above it. Its pseudo-code takes the quantile
    from the wrong end, and also keeps beta below the largest ratio seen, which stops early
    with a beta that a few draws decided; neither is done here. Given beta, the (n + 1)-th
    largest of N alphas, the n above it are i.i.d. from p_beta: no bias is left by choosing
    beta from the same draws.

    Fewer than n + 1 draws with P(x) > 0 among the N mean that the rate is out of reach, since
    no beta accepts more than q(Supp P). Proposals then go on until n are found, beta is 0
    (``log_beta = -inf``), the samples are from q filtered to the support of P, and `doubts`
    says so.

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
        self.target, self.proposal = target, proposal
        self.acceptance_rate = as_rate(acceptance_rate)

    def sample(
        self,
        n: int,
        seed: Seed = None,
        max_proposals: int | None = None,
        batch_size: int | None = None,
        progress: Progress = False,
    ) -> Samples:
        """Return exactly n samples, and the beta they were accepted at.

        The parameters are those of `QRS.sample`; ``n/acceptance_rate`` proposals are made.
        """
        check_count("n", n)
        if max_proposals is not None:
            check_count("max_proposals", max_proposals)
        enough = self._enough(n)
        budget = math.inf if max_proposals is None else max_proposals
        streams, best, report = DrawStreams.of(seed), _Best(n + 1), progress_of(progress, "kept")
        block = 0
        while best.proposals < enough or best.possible < n:
            stop = enough if best.proposals < enough else best.proposals + BLOCK
            if min(stop, budget) <= best.proposals:
                raise out_of_budget(self._samples(best, n), n, int(budget))
            piece = draw_blocks(
                self.target,
                self.proposal,
                streams,
                block,
                MOST_BLOCKS,
                int(min(stop if stop == enough else math.ceil(stop / BLOCK) * BLOCK, budget)),
                batch_size,
            )
            piece = piece.take(np.arange(best.proposals - block * BLOCK, len(piece)))
            best.add(piece, n if best.proposals >= enough else None)
            block = best.proposals // BLOCK
            report(min(best.possible, n), n, best.proposals)
            warn_if_hopeless(min(best.possible, n), n, best.proposals)
        return self._samples(best, n)

    def replay(self, draws: Draws, n: int | None = None) -> Samples:
        """Return the samples among stored draws: n from the first n/acceptance_rate, or all.

        They are those that `sample` gives on draws of the same seed.

        Raises
        ------
        BudgetExceeded
            Where the draws are too few for n; its ``samples`` holds those that they give.
        """
        if n is not None:
            check_count("n", n)
        most = max(1, math.floor(len(draws) * self.acceptance_rate * (1 + 1e-12)))
        wanted = most if n is None else n
        enough = len(draws) if n is None else self._enough(n)
        best = _Best(wanted + 1)
        best.add(draws.take(np.arange(min(enough, len(draws)))), None)
        if best.possible < wanted and enough < len(draws):
            best.add(draws.take(np.arange(enough, len(draws))), wanted)
        samples = self._samples(best, wanted)
        if n is not None and (len(samples) < n or len(draws) < enough):
            raise out_of_budget(samples, n, len(draws))
        return samples

    def _enough(self, n: int) -> int:
        """Return how many proposals n samples are the best of."""
        return max(n, math.floor(n / self.acceptance_rate * (1 + 1e-12)))

    def _samples(self, best: _Best, n: int) -> Samples:
        draws, log_beta = best.split(n)
        doubts = []
        if log_beta == -math.inf:
            log_z_beta = math.log(max(len(draws), 1) / max(best.proposals, 1))
            log_p_beta = draws.log_q - log_z_beta
            doubts.append(
                f"An acceptance rate of {self.acceptance_rate:g} is out of reach: only "
                f"{best.possible:,} of {best.proposals:,} proposals had P(x) > 0. The samples are "
                "from the proposal filtered to the target's support (beta = 0). Ask for a lower "
                "rate, or use a better proposal."
            )
        else:
            exact = enumerate_log_z_beta(self.target, self.proposal, log_beta)
            log_rate = math.log(max(len(draws), 1) / best.proposals)
            log_z_beta = log_beta + log_rate if exact is None else exact
            log_p_beta = np.minimum(draws.log_p, log_beta + draws.log_q) - log_z_beta
        if log_beta > best.largest_ratio:
            doubts.append(
                f"beta = {level_text(log_beta)} is above every ratio seen, the largest being "
                f"{level_text(best.largest_ratio)}: a higher acceptance rate may give the same "
                "samples for less."
            )
        return Samples(
            draws.items,
            log_p_beta,
            draws.log_p,
            draws.log_q,
            log_beta,
            log_z_beta,
            best.proposals,
            tuple(doubts),
            draws.features,
        )


class _Best:
    """The draws with the largest alphas so far, in the order they were drawn."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.proposals = 0
        self.possible = 0
        self.largest_ratio = -math.inf
        self._parts: list[Draws] = []
        self._floor = -math.inf

    def __len__(self) -> int:
        return sum(len(part) for part in self._parts)

    def add(self, piece: Draws, stop_at: int | None) -> None:
        """Take a piece; with `stop_at`, no further than where that many are possible."""
        log_alpha = piece.log_alpha
        if stop_at is not None:
            possible = np.flatnonzero(log_alpha > -np.inf)[: stop_at - self.possible]
            if self.possible + len(possible) >= stop_at:
                piece = piece.take(np.arange(possible[-1] + 1))
                log_alpha = piece.log_alpha
        self.proposals += len(piece)
        self.possible += int((log_alpha > -np.inf).sum())
        self.largest_ratio = max(self.largest_ratio, float(piece.log_ratio.max()))
        self._parts.append(piece.take(np.flatnonzero(log_alpha > self._floor)))
        # Pruning costs as much as what is held, so it waits until that has doubled.
        if len(self) > 2 * self.size:
            self._prune()

    def _prune(self) -> Draws:
        held = Draws.concatenate(self._parts)
        if len(held) > self.size:
            log_alpha = held.log_alpha
            best = np.argpartition(log_alpha, -self.size)[-self.size :]
            # What lies below the worst that is kept cannot come back.
            self._floor = float(log_alpha[best].min())
            held = held.take(np.sort(best))
        self._parts = [held]
        return held

    def split(self, n: int) -> tuple[Draws, float]:
        """Return the n best draws and log beta, the next alpha; -inf where there is none."""
        draws = self._prune()
        if len(draws) <= n:
            return draws, -math.inf
        log_alpha = draws.log_alpha
        worst = int(np.argmin(log_alpha))
        return draws.take(np.delete(np.arange(len(draws)), worst)), float(log_alpha[worst])
