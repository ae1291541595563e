"""Rejection sampling chains (Tierney 1994, section 2.3.4): QRS, corrected by IMH."""

from __future__ import annotations

from quasir.core.arguments import as_log_beta
from quasir.core.types import Proposal, Target
from quasir.samplers.imh import IMH


class RejectionChain(IMH):
    """IMH whose candidates are the samples of QRS at beta; its stationary distribution is p.

    If P(x) <= beta q(x) for all x, this is rejection sampling, and the chain moves to every
    candidate. If not, the candidates follow p_beta, and the chain stays longer at a state with
    P(x) > beta q(x), which makes up for the mass that p_beta lacks there.

    Parameters
    ----------
    target, proposal, beta, log_beta
        See `QRS`.
    burn_in, thin, reset, bound
        See `IMH`; steps are candidates, each of which costs 1/AR proposals.

    Notes
    -----
    With p_beta ~ min(P, beta q) as proposal, w is P/min(P, beta q) = max(1, w/beta), and the
    probability to move, min(1, w(y)/w(x)), has Tierney's three cases: 1 from inside the bound,
    beta q(x)/P(x) from outside to inside, and IMH's from outside to outside.

    One uniform for each draw serves both decisions. Given that u < min(1, w/beta), the number
    u/min(1, w/beta) is uniform and independent of the candidate. The chain moves to the candidate
    if this number is below the ratio, that is if alpha > max(beta, w(x)), with the alpha of
    `Draws`. So the kernel is that of IMH, with max(beta, w) in place of w.

    A bound M on p/q is also a bound on p/p_beta, since p/p_beta = (Z_beta/Z) max(1, w/beta), where
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
        self.log_beta = as_log_beta(beta, log_beta)
