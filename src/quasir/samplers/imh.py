"""Independent Metropolis-Hastings, Algorithm 3 of the paper (`al:IMH`, appendix F)."""

from __future__ import annotations

from quasir.core.arguments import MOST, check_optional_count, number
from quasir.core.progress import Progress
from quasir.core.scores import check_pair, show
from quasir.core.types import Proposal, Seed, Target
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.samplers.describe import describe
from quasir.samplers.independent_chain import IndependentChain
from quasir.samplers.loop import check_sizes, collect, collect_stored
from quasir.samplers.results import ChainSamples
from quasir.samplers.schedule import Schedule, stuck

__all__ = ["IMH"]


class IMH:
    """A Markov chain that proposes from q in every state, with p as stationary law.

    From x it moves to x' ~ q with probability min(1, w(x')/w(x)), where w = P/q. It decides with
    the uniform of the draw, so live proposals and stored draws give the same chain.

    Parameters
    ----------
    target, proposal : Target, Proposal
        P and q.
    burn_in : int
        Steps before the first one that can be a sample.
    thin : int
        Keep one state out of this many.
    reset : int, optional
        Instead of the two above: run a new chain of this many proposals for each sample, and
        take its last state. The samples are then i.i.d.
    bound : float, optional
        M with p(x) <= M q(x) for all x, if known (p is normalised). It bounds the distance to p.

    Notes
    -----
    Algorithm 3 divides by w(x), which is 0 where the first draw has P(x) = 0. Here the chain
    starts at the first draw with P(x) > 0, so no state ever has P(x) = 0. Its output begins
    after the first step, as in Algorithm 3.

    A footnote of appendix F has TVD(p, pi^(n)) <= 2 (1 - 1/M)^n after n steps, with TVD defined
    as half the L1 distance. The factor 2 belongs to the L1 distance: each step has
    K(x, .) >= p/M whatever x is, so that TVD(p, pi^(n)) <= (1 - 1/M)^n from any start
    (Mengersen and Tweedie 1996), and the printed bound is twice as large as needed. The start,
    drawn from q >= p/M, counts as a step. `ChainSamples.tvd_bound` is (1 - 1/M)^k, where k is the
    number of proposals up to the first sample.

    Examples
    --------
    >>> from scipy import stats
    >>> import quasir as qr
    >>> target, proposal = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))
    >>> chain = qr.IMH(target, proposal, burn_in=100, thin=10).sample(1000, seed=1)
    >>> len(chain), chain.proposals, chain.distance.split(":")[0]
    (1000, 10101, 'unknown')
    """

    def __init__(
        self,
        target: Target,
        proposal: Proposal,
        burn_in: int = 0,
        thin: int = 1,
        reset: int | None = None,
        bound: float | None = None,
    ) -> None:
        check_pair(target, proposal)
        self.target, self.proposal = target, proposal
        self.schedule = Schedule(burn_in, thin, reset)
        self.bound = None if bound is None else number("bound", bound)
        if self.bound is not None and not self.bound >= 1:
            raise InputError(
                f"bound is {show(bound)}, but must be at least 1: p(x) <= M q(x) for all x, both "
                "normalised, holds for no smaller M."
            )
        self._log_beta: float | None = None

    def __repr__(self) -> str:
        return describe(self, **self.schedule.options, bound=self.bound)

    def sample(
        self,
        n: int,
        seed: Seed = None,
        max_proposals: int | None = None,
        batch_size: int | None = None,
        progress: Progress = None,
    ) -> ChainSamples:
        """Return n samples: the same as `replay` gives on draws of the same seed.

        The parameters are those of `QRS.sample`.

        Raises
        ------
        BudgetExceeded
            If `max_proposals` were made; its ``samples`` holds those found.
        """
        n = check_sizes(n, max_proposals, batch_size)
        return collect(
            IndependentChain(self.schedule, n, self._log_beta, self._chain),
            self.target,
            self.proposal,
            n,
            seed,
            max_proposals=max_proposals,
            batch_size=batch_size,
            progress=progress,
        )

    def replay(self, draws: Draws, n: int | None = None) -> ChainSamples:
        """Run on stored draws, and return the first n samples, or all of them.

        Raises
        ------
        BudgetExceeded
            If the draws give fewer than n; its ``samples`` holds those found.
        """
        n = check_optional_count("n", n, most=MOST)
        chain = IndependentChain(self.schedule, n, self._log_beta, self._chain)
        return collect_stored(chain, draws, n)

    def _chain(self, chain: IndependentChain) -> ChainSamples:
        found = chain.found
        tvd_bound = 1.0 if self.bound is None else (1 - 1 / self.bound) ** self.schedule.first
        alone = self.schedule.reset is not None
        return ChainSamples(
            items=found.items,
            log_p=found.log_p,
            log_q=found.log_q,
            proposals=chain.proposals,
            distance=self._distance(tvd_bound),
            features=found.features,
            doubts=() if alone else stuck(chain.longest_stay, chain.steps),
            steps=chain.steps,
            moves=chain.moves,
            independent=alone,
            tvd_bound=tvd_bound,
        )

    def _distance(self, tvd_bound: float) -> str:
        k = self.schedule.first
        if self.bound is None:
            return (
                f"unknown: the law of a chain's state number {k:,} tends to p as the chain grows, "
                "but can be neither scored nor compared with p (appendix F). QRS estimates "
                "its distance; bound=M bounds that of the chain if p <= M q is known."
            )
        return (
            f"TVD <= {tvd_bound:.3g}: (1 - 1/M)^{k} with M = {self.bound:g}, for each single "
            "sample; the distance itself is unknown and often far smaller."
        )
