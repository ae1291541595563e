"""The limits of p_beta for beta -> 0 (appendix D of the paper, `appx:naive_filter`).

Below the smallest ratio p_beta is constant: it is q_proj, q filtered to the support of P. The
paper defines q_proj for a pointwise constraint; here P may be any target. With the draws of
P(x) = 0 accepted too, it is q itself.
"""

from __future__ import annotations

import numpy as np

from quasir.certificates.certificate import Certificate
from quasir.certificates.evaluator import Evaluator
from quasir.estimation.estimate import Estimate

__all__ = ["projection_of", "proposal_of"]

FAR_BELOW = 50.0
"""Nats below the smallest ratio: p_beta is constant there, and Z_beta/Z is 0 but for rounding."""


def projection_of(evaluator: Evaluator) -> Certificate:
    """Return the certificate of q_proj; its acceptance rate is q(Supp P), `Z_{q_proj}`."""
    return _limit(evaluator, everything=False)


def proposal_of(evaluator: Evaluator) -> Certificate:
    """Return the certificate of q: every draw is accepted, and means are over all draws."""
    return _limit(evaluator, everything=True)


def _limit(evaluator: Evaluator, *, everything: bool) -> Certificate:
    """Evaluate at a beta below every ratio; Z_beta/beta, which has a limit, replaces Z_beta."""
    below = np.array([evaluator.ratios.level(0) - FAR_BELOW if evaluator.n_possible else 0.0])
    points = evaluator.points(below, everything=everything)
    estimates, z = points.estimates, points.estimates["log_z_beta"]
    estimates["log_z_beta"] = Estimate(z.value - below, z.se, z.low - below, z.high - below)
    kl = estimates["kl"]
    # Where no two ratios differ, an item that was not drawn may have any ratio to a beta near 0.
    unbounded = np.where(np.isnan(kl.se), np.inf, kl.high)
    estimates["kl"] = Estimate(kl.value, kl.se, kl.low, unbounded)
    if everything:
        estimates["acceptance_rate"] = Estimate(
            np.ones(1), np.zeros(1), np.ones(1), np.ones(1), np.array([True])
        )
        estimates.update(evaluator.basis.means_of_q())
    return evaluator.certificate(points, name="q" if everything else "q_proj")
