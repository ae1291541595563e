"""Algorithm 1 (`al:QRS`): QRS, and its relatives with another beta or with weights."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from quasir.core.arguments import as_log_beta
from quasir.core.formatting import level_text, short_repr
from quasir.core.items import as_items
from quasir.core.scores import log_prob_of, score
from quasir.core.streams import DrawStreams, Purpose, derived_seed
from quasir.core.types import Array, Items, Proposal, Target, optional_attribute
from quasir.draws.acceptance import (
    accepts,
    log_acceptance,
    log_normaliser,
    log_p_beta,
    log_ratio_of,
    log_z_beta,
)
from quasir.draws.draw_blocks import draw_blocks
from quasir.draws.draws import Draws
from quasir.errors import RatioExceededError
from quasir.samplers.base import (
    CollectingSampler,
    Collector,
    Result_co,
    fields_at_beta,
    sample_columns,
)
from quasir.samplers.results import ClimbingSamples, Samples, WeightedSamples

__all__ = ["QRS", "RS", "EmpiricalSupremum", "RejectionControl"]

NORMALISER_BLOCKS = 16  # blocks drawn to estimate Z_beta for `log_prob` if it is not known yet


class AtBeta(CollectingSampler[Result_co]):
    """P, q and beta, and the normaliser of p_beta once it is known."""

    def __init__(
        self,
        target: Target,
        proposal: Proposal,
        beta: float | None = None,
        *,
        log_beta: float | None = None,
    ) -> None:
        super().__init__(target, proposal)
        self.log_beta = as_log_beta(beta, log_beta)
        # The P, q and beta that it is of, since these can be assigned anew, and log Z_beta.
        self._known: tuple[Any, ...] = ()

    def collector(self, n: int | None) -> Accepted[Result_co]:
        return Accepted(self, n)

    def _check(self, piece: Draws) -> None:
        """Refuse draws that the sampler cannot decide on."""

    @abstractmethod
    def _finish(self, fields: dict[str, Any]) -> Result_co:
        """Return the result, given the fields of `Samples`."""

    def replay(self, draws: Draws, n: int | None = None) -> Result_co:
        known = self._known
        try:
            return super().replay(draws, n)
        finally:
            self._known = known  # these draws may come from another proposal

    replay.__doc__ = CollectingSampler.replay.__doc__

    def log_prob(self, items: Items) -> Array:
        """Return log p_beta(x), Eq. 1 (`eq:p_beta`).

        Z_beta is exact if the proposal's support can be listed. Otherwise it is estimated once,
        from the proposals of the first call that needs it.
        """
        items = as_items(items)
        log_p, log_q = score(self.target, items), log_prob_of(self.proposal, items)
        log_prob = log_p_beta(log_p, log_q, self.log_beta)
        parts = self.target, self.proposal
        return log_prob - log_normaliser(self.normaliser(), log_prob, items, *parts)

    def normaliser(self, accepted: Accepted[Any] | None = None) -> float:
        """Return log Z_beta: exact if the support can be listed, else the first estimate made."""
        own = self.target, self.proposal, self.log_beta
        if self._known[:2] == own[:2] and self._known[2] == own[2]:
            return float(self._known[3])
        log_z = enumerate_log_z_beta(*own)
        if log_z is None:
            if accepted is None:
                streams = DrawStreams(derived_seed(0, Purpose.NORMALISE))
                accepted = QRS(*own[:2], log_beta=self.log_beta).collector(None)
                accepted.add(draw_blocks(*own[:2], streams, 0, NORMALISER_BLOCKS))
            log_z = log_z_beta(self.log_beta, accepted.acceptance_sum / accepted.seen)
        self._known = *own, log_z
        return log_z


class Accepted(Collector[Result_co]):
    """The draws accepted so far at one beta; `acceptance_sum` sums all acceptance probabilities."""

    def __init__(self, sampler: AtBeta[Result_co], n: int | None) -> None:
        super().__init__(n)
        self.sampler, self.acceptance_sum = sampler, 0.0

    def add(self, piece: Draws) -> None:
        log_beta = self.sampler.log_beta
        self.sampler._check(piece)
        self.keep(piece, piece.accepted(log_beta=log_beta))
        self.acceptance_sum += float(np.exp(log_acceptance(piece.log_ratio, log_beta)).sum())

    def result(self) -> Result_co:
        sampler, log_z = self.sampler, self.sampler.normaliser(self)
        level = sampler.log_beta, log_z, sampler.target, sampler.proposal
        return sampler._finish(fields_at_beta(self.kept, self.proposals, *level))


class QRS(AtBeta[Samples]):
    """Propose x from q, and accept it with probability min(1, P(x)/(beta q(x))).

    The samples are i.i.d. from p_beta(x) = min(P(x), beta q(x))/Z_beta, Eq. 1 (`eq:p_beta`).
    `sample` draws anew. `replay` gives the accepted ones of draws that are there; if these chose
    beta, the samples are not exactly i.i.d.
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

    def _finish(self, fields: dict[str, Any]) -> Samples:
        return Samples(**fields)


class RS(QRS):
    """Rejection sampling: the caller asserts that P(x) <= beta q(x) for every x.

    The samples then follow p itself. A draw with a larger ratio raises `RatioExceededError`, since
    no acceptance probability could correct for it; `QRS` allows such a beta.

    Parameters
    ----------
    target, proposal, beta, log_beta
        See `QRS`.

    Examples
    --------
    >>> import quasir as qr
    >>> target, proposal = qr.Table({"a": 0.5, "b": 0.5}), qr.Table({"a": 0.9, "b": 0.1})
    >>> qr.RS(target, proposal, beta=5.0).sample(3, seed=0).acceptance_rate < 1
    True
    """

    def _check(self, piece: Draws) -> None:
        # A ratio that equals beta up to rounding is within the bound.
        bound = self.log_beta + 1e-9 * max(1.0, abs(self.log_beta))
        if above := int((piece.log_ratio > bound).sum()):
            i = int(np.argmax(piece.log_ratio))
            item = "" if piece.items is None else f" for {short_repr(piece.items[i])}"
            raise RatioExceededError(
                f"{above} of {len(piece)} draws have a ratio P(x)/q(x) above beta = "
                f"{level_text(self.log_beta)}, the largest being "
                f"{level_text(float(piece.log_ratio[i]))}{item}. Raise beta, or use QRS."
            )


class RejectionControl(AtBeta[WeightedSamples]):
    """QRS whose samples carry the weight max(1, P(x)/(beta q(x))) of p over p_beta.

    It is rejection control (Liu, Chen and Wong 1998).

    Weighted means are consistent for expectations under p at any beta. They are cheaper than
    importance sampling from q if the averaged function is expensive: most draws of small ratio
    are rejected before it is computed. `log_prob` is that of the samples without their weights.

    Parameters
    ----------
    target, proposal, beta, log_beta
        See `QRS`.

    Examples
    --------
    >>> import quasir as qr
    >>> target, proposal = qr.Table({"a": 0.5, "b": 0.5}), qr.Table({"a": 0.9, "b": 0.1})
    >>> samples = qr.RejectionControl(target, proposal, beta=1).sample(20, seed=0)
    >>> sorted(set(np.exp(samples.log_weight).round(6).tolist()))
    [1.0, 5.0]
    """

    def _finish(self, fields: dict[str, Any]) -> WeightedSamples:
        log_ratio = log_ratio_of(fields["log_p"], fields["log_q"])
        return WeightedSamples(**fields, log_weight=log_control_weight(log_ratio, self.log_beta))


class EmpiricalSupremum(CollectingSampler[ClimbingSamples]):
    """Rejection sampling with the largest ratio seen so far as beta (Caffo et al. 2002).

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
                "unknown: each sample is from p_beta at the largest ratio seen before it, and "
                "larger ones may be unseen. QRS at a fixed beta estimates its distance."
            ),
            log_betas=np.concatenate(self._log_betas),
            log_beta=self.log_beta,
        )


def log_control_weight(log_ratio: Array, log_beta: float) -> Array:
    """Return log max(1, w/beta), the log of p/p_beta up to a constant."""
    return np.maximum(log_ratio - log_beta, 0.0)


def enumerate_log_z_beta(target: Target, proposal: Proposal, log_beta: float) -> float | None:
    """Return log Z_beta summed over the proposal's support, or None if that cannot be listed."""
    support = optional_attribute(proposal, "support")
    if support is None:
        return None
    log_p, log_q = score(target, support), log_prob_of(proposal, support)
    return float(np.logaddexp.reduce(log_p_beta(log_p, log_q, log_beta)))
