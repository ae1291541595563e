"""Quasi-Rejection Sampling, Algorithm 1 of the paper (`al:QRS`)."""

from __future__ import annotations

from quasir.core.arguments import as_log_beta, exp_or_inf
from quasir.core.formatting import level_text
from quasir.core.progress import Progress
from quasir.core.scores import check_pair
from quasir.core.types import Array, Items, Proposal, Seed, Target
from quasir.draws.draws import Draws
from quasir.samplers.at_beta import AtBeta
from quasir.samplers.describe import describe
from quasir.samplers.results import Samples

__all__ = ["QRS"]


class QRS:
    """Propose x from q, and accept it with probability min(1, P(x)/(beta q(x))).

    The samples are i.i.d. from p_beta(x) = min(P(x), beta q(x))/Z_beta, Eq. 1 (`eq:p_beta`).
    `quasir.tradeoff` estimates the cost and the distance to p. The decision of Algorithm 1 is in
    `quasir.draws.acceptance`.

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
        check_pair(target, proposal)
        self.target, self.proposal = target, proposal
        self.log_beta = as_log_beta(beta, log_beta)
        self._level = AtBeta(target, proposal, self.log_beta)

    @property
    def beta(self) -> float:
        """The level; if it is out of a float's range, see `log_beta`."""
        return exp_or_inf(self.log_beta)

    def __repr__(self) -> str:
        return describe(self, f" at beta = {level_text(self.log_beta)}")

    def sample(
        self,
        n: int,
        seed: Seed = None,
        max_proposals: int | None = None,
        batch_size: int | None = None,
        progress: Progress = None,
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
            The budget. Without one, a warning appears if most samples are still to be found.
        batch_size : int, optional
            How many items the target scores at once; it does not change the samples.
        progress : bool or callable
            By default a line on stderr appears once the work takes seconds; True shows it at once,
            False never; a callable is called with (found, n, proposed).

        Raises
        ------
        BudgetExceeded
            If `max_proposals` were made; its ``samples`` holds those found.
        """
        return self._level.sample(n, seed, max_proposals, batch_size, progress)

    def replay(self, draws: Draws, n: int | None = None) -> Samples:
        """Return the samples among stored draws: the first n, or all.

        Raises
        ------
        BudgetExceeded
            If the draws hold fewer than n; its ``samples`` holds those found.
        """
        return self._level.replay(draws, n)

    def log_prob(self, items: Items) -> Array:
        """Return log p_beta(x), Eq. 1 (`eq:p_beta`).

        Z_beta is exact if the proposal's support can be listed. Otherwise it is estimated once,
        from the proposals of the first call that needs it.
        """
        return self._level.log_prob(items)
