"""Acceptance: Eq. 1 of the paper (`eq:p_beta`), and the decision of Algorithm 1.

Everything that accepts, samples or scores at a beta takes these three lines from here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quasir.core.types import Array

__all__ = ["accepts", "log_acceptance", "log_p_beta"]


def log_p_beta(log_p: Array, log_q: Array, log_beta: float) -> Array:
    """Return log P_beta(x) = log min(P(x), beta q(x)), Eq. 1 without its normaliser Z_beta."""
    return np.minimum(log_p, log_beta + log_q)


def log_acceptance(log_ratio: Array, log_beta: float) -> Array:
    """Return the log of the probability to accept, min(1, P(x)/(beta q(x))): Algorithm 1."""
    return np.minimum(log_ratio - log_beta, 0.0)


def accepts(log_alpha: Array, log_beta: Any) -> Any:
    """Return where a draw is accepted: where alpha = P(x)/(q(x) u) is above beta.

    That is u < min(1, P(x)/(beta q(x))), since u is below 1. The sets are nested: a larger beta
    accepts a subset.
    """
    return log_alpha > log_beta
