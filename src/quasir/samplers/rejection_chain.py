"""Rejection sampling chains (Tierney 1994, section 2.3.4): QRS, mended by IMH."""

from __future__ import annotations

import math

from quasir.core.arguments import as_log_beta
from quasir.core.types import Proposal, Target
from quasir.samplers.imh import IMH

__all__ = ["RejectionChain"]


class RejectionChain(IMH):
    """IMH whose candidates are what QRS accepts at beta; its stationary law is p.

    Where P(x) <= beta q(x) for all x this is rejection sampling, and every candidate is a
    sample. Where the bound breaks, candidates are from p_beta, and the chain stays on a state
    with P(x) > beta q(x) often enough to make up for what p_beta lacks there.

    Parameters
    ----------
    target, proposal : Target, Proposal
        P and q.
    beta, log_beta : float
        Exactly one of them.
    burn_in, thin, reset, bound
        See `IMH`; steps are candidates, each of which costs 1/AR proposals.

    Notes
    -----
    With p_beta ~ min(P, beta q) as proposal, w is P/min(P, beta q) = max(1, w/beta), and the
    probability to move, min(1, w(y)/w(x)), has Tierney's three cases: 1 from inside the bound,
    beta q(x)/P(x) from outside to inside, and IMH's from outside to outside.

    One uniform a draw does for both decisions. Given that u < min(1, w/beta), the candidate's
    own u/min(1, w/beta) is uniform and independent of it, and the candidate is moved to when
    that is below the ratio: when alpha > max(beta, w(x)), with the alpha of `Draws`. So the
    kernel is that of IMH, with max(beta, w) for w.

    A bound M on p/q is one on p/p_beta, too, since p/p_beta = (Z_beta/Z) max(1, w/beta), where
    Z_beta is at most Z and at most beta.

    Examples
    --------
    >>> import quasir as qr
    >>> target, proposal = qr.Table({"a": 0.5, "b": 0.5}), qr.Table({"a": 0.9, "b": 0.1})
    >>> chain = qr.RejectionChain(target, proposal, beta=2.0).sample(1000, seed=0)
    >>> 1000 <= chain.steps < chain.proposals
    True
    """

    def __init__(
        self,
        target: Target,
        proposal: Proposal,
        beta: float | None = None,
        *,
        log_beta: float | None = None,
        burn_in: int = 0,
        thin: int = 1,
        reset: int | None = None,
        bound: float | None = None,
    ) -> None:
        super().__init__(target, proposal, burn_in, thin, reset, bound)
        self.log_beta = self._log_beta = as_log_beta(beta, log_beta)

    @property
    def beta(self) -> float:
        """The level; where it is out of a float's range, see `log_beta`."""
        return math.exp(self.log_beta) if self.log_beta < 709.7 else math.inf
