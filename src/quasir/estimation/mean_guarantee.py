"""A guarantee over many contexts: how many of them can have a TVD above a level, and its mean.

For a fixed level tau, the wealth of a context at its true g* (truncated_mass(g*) = tau) is a
martingale, and a context whose TVD at the chosen beta is above tau has at least the wealth that is
observed there. So the product over all contexts of (1 - e + e times that wealth) stays below
1/alpha with confidence 1 - alpha, and bounds how many contexts are above tau. The betas may be
chosen by the draws, and so may the number of draws of each context. Proof: docs/records/proofs.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array
from quasir.estimation.betting import FAR, Bet
from quasir.estimation.binned_draws import BinnedDraws
from quasir.estimation.formulas import ceiling_bound
from quasir.estimation.guarantee import Assumptions, as_alpha

LEVELS = 0.004 * 1.088 ** np.arange(64.0)
"""The levels tau, from 0.004 to 0.81, fixed beforehand; each has an equal part of alpha."""


@dataclass(frozen=True)
class MeanGuarantee:
    """What is guaranteed about all contexts together."""

    tvd: float  # the mean of TVD over the served contexts is at most this
    contexts: int  # how many contexts it is about
    above: NDArray[np.int64]  # for each of `LEVELS`: at most so many of them have a TVD above it
    confidence: float  # all of it holds together with this, whenever it is looked at


@dataclass(frozen=True)
class Evidence:
    """What is known about the TVD of one context."""

    # Of its draws against "TVD > tau", at each of `LEVELS`; infinite where that is certainly false,
    # and -inf where nothing can be guaranteed.
    log_wealth: Array
    most: float  # TVD is at most this for certain: 1 - sqrt(beta/M), and 1 without a ceiling M


NO_EVIDENCE = Evidence(np.full(len(LEVELS), -np.inf), 1.0)


def tvd_evidence(binned: BinnedDraws, log_beta: float, assumptions: Assumptions) -> Evidence:
    """Return what the draws of one context show about TVD at a beta."""
    ceiling, log_z = assumptions.log_ceiling, assumptions.log_z
    # A bound on Z that may fail itself is not enough here.
    if ceiling == math.inf and (log_z is None or assumptions.spent):
        return NO_EVIDENCE
    most = float(ceiling_bound("tvd", np.array(ceiling - log_beta)))
    if most == 0:
        return Evidence(np.full(len(LEVELS), np.inf), 0.0)
    log_z = log_z if ceiling == math.inf else None
    if log_beta <= (ceiling if log_z is None else binned.log_top) - FAR:
        return NO_EVIDENCE
    bet = Bet(binned, np.full(len(LEVELS), log_beta), ceiling, log_z)
    return Evidence(bet.tvd(LEVELS, np.arange(len(LEVELS))), most)


def most_above(log_wealth: Array, contexts: int, log_need: float) -> int:
    """Return how many contexts can be above a level."""
    # The fractions e, from 0.9 to about 1/contexts.
    fractions = [0.9, *(2.0**-j for j in range(1, max(contexts, 1).bit_length() + 2))]
    need = log_need + math.log(len(fractions))
    wealth = np.sort(log_wealth)
    most = len(wealth)
    for e in fractions:
        # A context that is above adds this to the log of the product, any other at least 0.
        gain = np.logaddexp(math.log1p(-e), math.log(e) + wealth) - math.log1p(-e)
        room = need - contexts * math.log1p(-e)
        most = min(most, int(np.searchsorted(np.cumsum(gain), room)))
    return most


def mean_guarantee(
    evidence: Sequence[Evidence], contexts: int, confidence: float = 0.95
) -> MeanGuarantee | None:
    """Return the guarantee about the mean TVD of the served contexts, or None if there is none.

    TVD is the integral over tau of "TVD > tau", so its mean is the integral of the share of
    contexts above tau. Between two levels these are at most so many as at the lower one, and none
    above what is certain for it.
    """
    alpha = as_alpha(confidence)
    log_wealth = np.stack([part.log_wealth for part in evidence])
    served = len(log_wealth)
    if not (log_wealth > -np.inf).any():
        return None
    need = math.log(len(LEVELS)) - math.log(alpha)
    above = np.minimum.accumulate(
        [most_above(column, contexts, need) for column in log_wealth.T]
    ).astype(np.int64)
    # Below the first level every context counts, up to what is certain for it.
    most = np.sort([part.most for part in evidence])[::-1]
    starts, ends = np.concatenate([[0.0], LEVELS]), np.concatenate([LEVELS, [1.0]])
    total = sum(
        float(np.clip(most[:count] - start, 0.0, end - start).sum())
        for count, start, end in zip([served, *above], starts, ends, strict=True)
    )
    return MeanGuarantee(total / served, served, above, confidence)
