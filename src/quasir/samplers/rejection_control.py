"""Rejection control (Liu, Chen and Wong 1998): QRS with weights that correct it to p."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields

import numpy as np

from quasir.core.arguments import as_log_beta, exp_or_inf
from quasir.core.formatting import level_text
from quasir.core.progress import Progress
from quasir.core.scores import check_pair
from quasir.core.types import Array, Items, Proposal, Seed, Target
from quasir.draws.draws import Draws
from quasir.errors import BudgetExceeded
from quasir.samplers.at_beta import AtBeta
from quasir.samplers.describe import describe
from quasir.samplers.results import Samples, WeightedSamples

__all__ = ["RejectionControl", "log_control_weight"]


class RejectionControl:
    """QRS whose samples carry the weight max(1, P(x)/(beta q(x))) of p over p_beta.

    Weighted means are consistent for expectations under p at any beta. They are cheaper than
    importance sampling from q if the averaged function is expensive: most draws of small ratio
    are rejected before it is computed.

    Parameters
    ----------
    target, proposal : Target, Proposal
        P and q.
    beta, log_beta : float
        Exactly one of them.

    Examples
    --------
    >>> import quasir as qr
    >>> target, proposal = qr.Table({"a": 0.5, "b": 0.5}), qr.Table({"a": 0.9, "b": 0.1})
    >>> samples = qr.RejectionControl(target, proposal, beta=1).sample(20, seed=0)
    >>> sorted(set(np.exp(samples.log_weight).round(6).tolist()))
    [1.0, 5.0]
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
    ) -> WeightedSamples:
        """Return the n samples of `QRS.sample` with their weights."""
        with _weighted_error():
            return _weighted(self._level.sample(n, seed, max_proposals, batch_size, progress))

    def replay(self, draws: Draws, n: int | None = None) -> WeightedSamples:
        """Return the samples of `QRS.replay` with their weights."""
        with _weighted_error():
            return _weighted(self._level.replay(draws, n))

    def log_prob(self, items: Items) -> Array:
        """Return log p_beta(x), the law of the samples without their weights."""
        return self._level.log_prob(items)


def log_control_weight(log_ratio: Array, log_beta: float) -> Array:
    """Return log max(1, w/beta), the log of p/p_beta up to a constant."""
    return np.maximum(log_ratio - log_beta, 0.0)


@contextmanager
def _weighted_error() -> Iterator[None]:
    """Add weights to the samples that an error carries."""
    try:
        yield
    except BudgetExceeded as error:
        error.samples = _weighted(error.samples)
        raise


def _weighted(samples: Samples) -> WeightedSamples:
    assert samples.log_q is not None
    parts = {part.name: getattr(samples, part.name) for part in fields(samples)}
    log_weight = log_control_weight(samples.log_p - samples.log_q, samples.log_beta)
    return WeightedSamples(**parts, log_weight=log_weight)
