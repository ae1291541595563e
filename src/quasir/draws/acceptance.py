"""Acceptance: Eqs. 1 and 2 (`eq:p_beta`, `eq:ar`), and the decision of Algorithm 1."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quasir.core.types import Array, Items, optional_attribute


def log_ratio_of(log_p: Array, log_q: Array) -> Array:
    """Return the log of P(x)/q(x); it is -inf where P(x) = 0, also if log q is not known there."""
    ratio: Array = log_p - log_q
    if len(ratio) and np.isnan(ratio.min()):
        ratio[np.isnan(log_q) & (log_p == -np.inf)] = -np.inf
    return ratio


def log_p_beta(log_p: Array, log_q: Array, log_beta: float) -> Array:
    """Return log P_beta(x) = log min(P(x), beta q(x)), Eq. 1 without its normaliser Z_beta."""
    if log_beta == -np.inf:  # the limit of log P_beta(x)/beta
        return np.where(log_p > -np.inf, log_q, -np.inf)
    return np.minimum(log_p, log_beta + log_q)


def log_normaliser(log_z_beta: float, log_unnormalised: Array, items: Items, *parts: Any) -> float:
    """Return an estimate of log Z_beta, raised to the largest log P_beta(x) of these items."""
    # Z_beta is the sum of P_beta over all items, so p_beta(x) is at most 1. A density may be above
    # 1: one of `parts` declares it, or none declares anything and the items are real numbers.
    declared = [optional_attribute(part, "density") for part in parts]
    real = isinstance(items, np.ndarray) and items.dtype.kind == "f" and False not in declared
    if True in declared or real:
        return log_z_beta
    return float(log_unnormalised.max(initial=log_z_beta))


def log_acceptance(log_ratio: Array, log_beta: float) -> Array:
    """Return the log of the acceptance probability of Algorithm 1, min(1, P(x)/(beta q(x)))."""
    return np.minimum(log_ratio - log_beta, 0.0)


def log_z_beta(log_beta: float, acceptance_rate: float) -> float:
    """Return log Z_beta = log(beta AR), Eqs. 2 and 6; for beta = 0 the limit of log Z_beta/beta."""
    log_rate = math.log(acceptance_rate) if acceptance_rate > 0 else -math.inf
    return log_rate if log_beta == -math.inf else log_beta + log_rate


def accepts(log_alpha: Array, log_beta: Any) -> Any:
    """Return whether alpha = P(x)/(q(x) u) is above beta, that is u < min(1, P(x)/(beta q(x)))."""
    return log_alpha > log_beta
