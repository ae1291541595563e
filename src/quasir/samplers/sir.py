"""Sampling importance resampling (Rubin 1987): sample a pool of draws by their weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quasir.core.arguments import check_count
from quasir.core.streams import Purpose, root_seed, stream
from quasir.core.types import Array, Seed
from quasir.draws.draw import draw
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.estimation.estimate import kish_ess
from quasir.samplers.base import Request, Sampler, budget_exceeded, check_draws, sample_columns
from quasir.samplers.results import ApproximateSamples


@dataclass(eq=False, repr=False)
class SIR(Sampler[ApproximateSamples]):
    """Draw a pool of N from q, then n from the pool, with replacement, by the weights P(x)/q(x).

    Parameters
    ----------
    target, proposal : Target, Proposal
        P and q.
    pool : int
        N. The distribution of a sample tends to p as N grows. The samples share the pool, so they
        are independent only given the pool.

    Examples
    --------
    >>> from scipy import stats
    >>> import quasir as qr
    >>> target, proposal = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))
    >>> samples = qr.SIR(target, proposal, pool=10_000).sample(1000, seed=1)
    >>> len(samples), samples.proposals
    (1000, 10000)
    """

    pool: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self.pool = check_count("pool", self.pool)

    def _sample(self, asked: Request) -> ApproximateSamples:
        if asked.max_proposals is not None and asked.max_proposals < self.pool:
            raise InputError(
                f"max_proposals is {asked.max_proposals}, but the pool is {self.pool} draws."
            )
        root = root_seed(asked.seed)
        pair = self.target, self.proposal
        draws = draw(*pair, self.pool, root, asked.batch_size, asked.progress)
        return self.replay(draws, asked.n, root)

    def replay(self, draws: Draws, n: int, seed: Seed = None) -> ApproximateSamples:
        """Return n samples with stored draws as the pool; by default with the seed of the draws.

        Raises
        ------
        BudgetExceeded
            If no draw has P(x) > 0.
        """
        n, draws = check_count("n", n), check_draws(draws)
        probs = resampling_probs(draws.log_ratio)
        size = kish_ess(1.0, float((probs**2).sum()))
        chosen = np.empty(0, np.intp)
        if size:
            cumulative = np.cumsum(probs)
            rng = stream(draws.seed if seed is None else root_seed(seed), Purpose.RESAMPLE)
            chosen = np.searchsorted(cumulative, rng.random(n) * cumulative[-1], side="right")
            # Rounding must not choose a draw past the last one with P(x) > 0.
            chosen = np.minimum(chosen, np.flatnonzero(probs)[-1])
        repeated = (
            f"The pool of {len(draws):,} draws is worth {size:,.1f} by its weights, fewer than "
            f"the {n:,} samples taken from it: some draws are repeated often. Use a larger pool."
        )
        samples = ApproximateSamples(
            **sample_columns(draws.take(chosen), len(draws)),
            distance=(
                "unknown: the distribution of a sample tends to p as the pool grows, but can be "
                "neither scored nor compared with p. QRS estimates its distance."
            ),
            warnings=() if size >= n else (repeated,),
        )
        if not size:
            raise budget_exceeded(samples, n, len(draws), what="draws, none of them with P(x) > 0,")
        return samples


def resampling_probs(log_ratio: Array) -> Array:
    """Return the probability of each draw of the pool; all 0 if no draw has P(x) > 0."""
    top = float(log_ratio.max())
    if top == -np.inf:
        return np.zeros(len(log_ratio))
    weight = np.exp(log_ratio - top)
    probs: Array = weight / weight.sum()
    return probs
