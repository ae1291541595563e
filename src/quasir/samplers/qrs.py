"""Quasi-Rejection Sampling, Algorithm 1 of the paper."""

from __future__ import annotations

import math

import numpy as np

from quasir.core.arguments import as_log_beta, check_count
from quasir.core.items import as_items
from quasir.core.progress import Progress, progress_of
from quasir.core.scores import check_log_scores, name_of, score
from quasir.core.streams import DrawStreams, Purpose, derived_seed
from quasir.core.types import Array, Items, Proposal, Seed, Target
from quasir.draws.draw_blocks import draw_blocks
from quasir.draws.draws import Draws
from quasir.samplers.loop import Collected, out_of_budget, warn_if_hopeless
from quasir.samplers.samples import Samples

__all__ = ["QRS"]

MOST_BLOCKS = 64
"""Blocks proposed at once, at most."""
NORMALISER_BLOCKS = 16
"""Blocks drawn to estimate Z_beta for `log_prob` where it is not known otherwise."""


class QRS:
    """Propose x from q, and accept it with probability min(1, P(x)/(beta q(x))).

    The samples are i.i.d. from p_beta(x) = min(P(x), beta q(x))/Z_beta (Eq. 1). What that
    costs and how close it is to p is said by `quasir.tradeoff`.

    Parameters
    ----------
    target, proposal : Target, Proposal
        P and q.
    beta, log_beta : float
        Exactly one of them.

    Examples
    --------
    >>> from scipy import stats
    >>> import quasir as qr
    >>> sampler = qr.QRS(qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10)), beta=2)
    >>> len(sampler.sample(1000, seed=1))
    1000
    """

    def __init__(
        self,
        target: Target,
        proposal: Proposal,
        beta: float | None = None,
        *,
        log_beta: float | None = None,
    ) -> None:
        self.target, self.proposal = target, proposal
        self.log_beta = as_log_beta(beta, log_beta)
        self._log_z_beta: float | None = None

    @property
    def beta(self) -> float:
        """The level; where it is out of a float's range, see `log_beta`."""
        return math.exp(self.log_beta) if self.log_beta < 709.7 else math.inf

    def sample(
        self,
        n: int,
        seed: Seed = None,
        max_proposals: int | None = None,
        batch_size: int | None = None,
        progress: Progress = False,
    ) -> Samples:
        """Return exactly n samples.

        They are the first n draws of ``quasir.draw(target, proposal, ..., seed)`` that beta
        accepts.

        Parameters
        ----------
        n : int
            How many.
        seed : int, numpy Generator or None
        max_proposals : int, optional
            The budget. Without one, a warning tells when the samples are far off.
        batch_size : int, optional
            How many items the target scores at once; changes no sample.
        progress : bool or callable
            True shows a line on stderr; a callable is called with (accepted, n, proposed).

        Raises
        ------
        BudgetExceeded
            When `max_proposals` were made; its ``samples`` holds those found.
        """
        check_count("n", n)
        if max_proposals is not None:
            check_count("max_proposals", max_proposals)
        streams, found, block = DrawStreams.of(seed), Collected(self.log_beta), 0
        report = progress_of(progress, "accepted")
        while len(found) < n:
            if max_proposals is not None and found.proposals >= max_proposals:
                raise out_of_budget(self._samples(found), n, max_proposals)
            blocks = found.blocks_for(n, MOST_BLOCKS)
            piece = draw_blocks(
                self.target, self.proposal, streams, block, blocks, max_proposals, batch_size
            )
            self._check(piece)
            found.add(piece, n)
            block += blocks
            report(min(len(found), n), n, found.proposals)
            warn_if_hopeless(len(found), n, found.proposals)
        return self._samples(found)

    def replay(self, draws: Draws, n: int | None = None) -> Samples:
        """Return the samples among stored draws: the first n, or all.

        Raises
        ------
        BudgetExceeded
            Where the draws hold fewer than n; its ``samples`` holds those.
        """
        if n is not None:
            check_count("n", n)
        self._check(draws)
        found = Collected(self.log_beta)
        found.add(draws, n)
        samples = self._samples(found)
        if n is not None and len(samples) < n:
            raise out_of_budget(samples, n, len(draws))
        return samples

    def log_prob(self, items: Items) -> Array:
        """Return log p_beta(x), Eq. 1 (`eq:p_beta`).

        Z_beta is exact where the proposal's support can be listed. Else it is estimated once,
        from the proposals of the first call that needed it.
        """
        items = as_items(items)
        log_p = score(self.target, items)
        log_q = check_log_scores(
            self.proposal.log_prob(items), items, name_of(self.proposal), "log q"
        )
        if self._log_z_beta is None:
            self._log_z_beta = self._enumerated()
        if self._log_z_beta is None:
            found = Collected(self.log_beta)
            streams = DrawStreams(derived_seed(0, Purpose.NORMALISE))
            found.add(draw_blocks(self.target, self.proposal, streams, 0, NORMALISER_BLOCKS))
            self._log_z_beta = found.log_z_beta
        return np.minimum(log_p, self.log_beta + log_q) - self._log_z_beta

    def _samples(self, found: Collected) -> Samples:
        if self._log_z_beta is None:
            exact = self._enumerated()
            self._log_z_beta = found.log_z_beta if exact is None else exact
        return found.samples(self._log_z_beta)

    def _enumerated(self) -> float | None:
        return enumerate_log_z_beta(self.target, self.proposal, self.log_beta)

    def _check(self, piece: Draws) -> None:
        """Look at each piece of draws before it is used; QRS takes any ratio."""


def enumerate_log_z_beta(target: Target, proposal: Proposal, log_beta: float) -> float | None:
    """Return log Z_beta summed over the proposal's support, or None where it has no list."""
    support = getattr(proposal, "support", None)
    if support is None:
        return None
    log_p, log_q = score(target, support), np.asarray(proposal.log_prob(support))
    total = np.logaddexp.reduce(np.minimum(log_p, log_beta + log_q))
    return float(total)
