"""Acceptance: Eq. 1 of the paper (`eq:p_beta`), and the decision of Algorithm 1.

All code that accepts, samples or scores at a beta uses these functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quasir.core.types import Array

__all__ = ["accepts", "log_acceptance", "log_p_beta", "log_ratio_of"]


def log_ratio_of(log_p: Array, log_q: Array) -> Array:
    """Return the log of P(x)/q(x); it is -inf where P(x) = 0, also if log q is not known there.

    Examples
    --------
    >>> log_ratio_of(np.array([-1.0, -np.inf]), np.array([-3.0, np.nan]))
    array([  2., -inf])
    """
    ratio: Array = log_p - log_q
    if len(ratio) and np.isnan(ratio.min()):
        ratio[np.isnan(log_q) & (log_p == -np.inf)] = -np.inf
    return ratio


def log_p_beta(log_p: Array, log_q: Array, log_beta: float) -> Array:
    """Return log P_beta(x) = log min(P(x), beta q(x)), Eq. 1 without its normaliser Z_beta."""
    return np.minimum(log_p, log_beta + log_q)


def log_acceptance(log_ratio: Array, log_beta: float) -> Array:
    """Return the log of the acceptance probability of Algorithm 1, min(1, P(x)/(beta q(x)))."""
    return np.minimum(log_ratio - log_beta, 0.0)


def accepts(log_alpha: Array, log_beta: Any) -> Any:
    """Return whether each draw is accepted: whether alpha = P(x)/(q(x) u) is above beta.

    This is the same as u < min(1, P(x)/(beta q(x))), since u is below 1. The sets are nested: a
    larger beta accepts a subset.
    """
    return log_alpha > log_beta
