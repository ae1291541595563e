"""Sampling importance resampling (Rubin 1987): sample a pool of draws by their weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from quasir.core.arguments import check_count
from quasir.core.progress import Progress
from quasir.core.scores import check_pair
from quasir.core.streams import Purpose, root_seed, stream
from quasir.core.types import Array, Proposal, Seed, Target
from quasir.draws.draw import draw
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.samplers.describe import describe
from quasir.samplers.loop import budget_exceeded, check_draws, check_sizes
from quasir.samplers.results import ApproximateSamples

__all__ = ["SIR", "resampling_law"]


class SIR:
    """Draw a pool of N from q, then n from the pool, with replacement, by the weights P(x)/q(x).

    Parameters
    ----------
    target, proposal : Target, Proposal
        P and q.
    pool : int
        N. The law of a sample tends to p as N grows. The samples share the pool, so they are
        independent only given the pool.

    Examples
    --------
    >>> from scipy import stats
    >>> import quasir as qr
    >>> target, proposal = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))
    >>> samples = qr.SIR(target, proposal, pool=10_000).sample(1000, seed=1)
    >>> len(samples), samples.proposals
    (1000, 10000)
    """

    def __init__(self, target: Target, proposal: Proposal, pool: int) -> None:
        check_pair(target, proposal)
        self.target, self.proposal = target, proposal
        self.pool = check_count("pool", pool)

    def __repr__(self) -> str:
        return describe(self, pool=self.pool)

    def sample(
        self,
        n: int,
        seed: Seed = None,
        max_proposals: int | None = None,
        batch_size: int | None = None,
        progress: Progress = None,
    ) -> ApproximateSamples:
        """Return n samples from the pool ``quasir.draw(target, proposal, pool, seed)``.

        The parameters are those of `QRS.sample`.
        """
        n = check_sizes(n, max_proposals, batch_size)
        if max_proposals is not None and max_proposals < self.pool:
            raise InputError(
                f"max_proposals is {max_proposals}, but the pool is {self.pool} draws: make the "
                "pool smaller, or allow for it."
            )
        root = root_seed(seed)
        draws = draw(self.target, self.proposal, self.pool, root, batch_size, progress)
        return self.replay(draws, n, root)

    def replay(self, draws: Draws, n: int, seed: Seed = None) -> ApproximateSamples:
        """Return n samples with stored draws as the pool; by default with the seed of the draws.

        Raises
        ------
        BudgetExceeded
            If no draw has P(x) > 0.
        """
        n = check_sizes(n)
        check_draws(draws)
        law = resampling_law(draws.log_ratio)
        root = draws.seed if seed is None else root_seed(seed)
        if draws.items is None:
            draws = replace(draws, items=np.arange(len(draws)))
        ess = 1 / float((law**2).sum()) if law.any() else 0.0
        chosen = np.empty(0, np.intp)
        if ess:
            cumulative = np.cumsum(law)
            uniforms = stream(root, Purpose.RESAMPLE).random(n) * cumulative[-1]
            chosen = np.searchsorted(cumulative, uniforms, side="right")
            # Rounding must not choose a draw past the last one with P(x) > 0.
            chosen = np.minimum(chosen, np.flatnonzero(law)[-1])
        kept = draws.take(chosen)
        samples = ApproximateSamples(
            items=kept.items,
            log_p=kept.log_p,
            log_q=kept.log_q,
            proposals=len(draws),
            distance=(
                f"unknown: the law of a sample tends to p as the pool of {len(draws):,} draws "
                "grows, but can be neither scored nor compared with p. QRS estimates its distance."
            ),
            features=kept.features,
            doubts=_doubts(ess, n, len(draws)),
        )
        if not ess:
            raise budget_exceeded(samples, n, len(draws), what="draws, none of them with P(x) > 0,")
        return samples


def resampling_law(log_ratio: Array) -> Array:
    """Return the probability of each draw of the pool; all 0 if no draw has P(x) > 0.

    Examples
    --------
    >>> resampling_law(np.log([1.0, 3.0]) + 800)
    array([0.25, 0.75])
    """
    top = float(log_ratio.max())
    if top == -np.inf:
        return np.zeros(len(log_ratio))
    weight = np.exp(log_ratio - top)
    law: Array = weight / weight.sum()
    return law


def _doubts(ess: float, n: int, pool: int) -> tuple[str, ...]:
    if ess >= n:
        return ()
    return (
        f"The pool of {pool:,} draws is worth {ess:,.1f} by its weights, fewer than the {n:,} "
        "samples taken from it: some draws are repeated often. Use a larger pool.",
    )
