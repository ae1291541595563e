"""The ceiling: a number that no ratio P(x)/q(x) exceeds, known before anything is drawn.

If q is the target's own base, or a mixture that gives it the share s, then q(x) >= s a(x), and so
P(x)/q(x) = a(x) b(x)/q(x) <= b(x)/s. The largest b is known if the features are boolean. At a beta
at or above the ceiling, QRS is rejection sampling: p_beta is exactly p.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from quasir.core.optional import offered
from quasir.core.types import Proposal, Target
from quasir.proposals.mixture import Mixture
from quasir.targets.product import Product

__all__ = ["base_share", "log_ceiling", "reaches_all"]


def log_ceiling(target: Target, proposal: Proposal, features: Mapping[str, NDArray[Any]]) -> float:
    """Return log M with P(x) <= M q(x) for every x, or infinity if no M is known.

    Parameters
    ----------
    target, proposal : Target, Proposal
    features : mapping
        Columns of the target's features on some draws; their types say which are boolean.

    Examples
    --------
    >>> import numpy as np
    >>> import quasir as qr
    >>> base, other = qr.Table({"a": 0.9, "b": 0.1}), qr.Table({"a": 0.2, "b": 0.8})
    >>> is_b = qr.Feature("b", lambda x: x == "b")
    >>> target, columns = base * qr.tilt(is_b, np.log(4)), {"b": np.array([True])}
    >>> math.exp(log_ceiling(target, base, columns))
    4.0
    >>> round(math.exp(log_ceiling(target, qr.Mixture([base, other]), columns)), 9)
    8.0
    >>> log_ceiling(target, other, columns)
    inf
    """
    if not isinstance(target, Product):
        return math.inf
    share = base_share(proposal, target.base)
    says = offered(proposal, "log_most_base_ratio")
    log_base = -math.log(share) if share else says(target.base, target) if says else math.inf
    if log_base == math.inf:
        return math.inf
    most = 0.0
    for factor in target.factors:
        log_most = offered(factor, "log_most")
        if log_most is None:
            return math.inf
        most += log_most(features[factor.feature.name].dtype == bool)
    return most + log_base


def base_share(proposal: Proposal, base: Any) -> float:
    """Return the weight of the base itself in a proposal."""
    if isinstance(proposal, Mixture):
        parts = zip(proposal.components, proposal.weights, strict=True)
        return float(sum(weight for part, weight in parts if part is base))
    return float(proposal is base)


def reaches_all(target: Target, proposal: Proposal) -> bool:
    """Return whether q(x) > 0 wherever P(x) > 0, as far as the proposal says so."""
    says = offered(proposal, "reaches")
    return bool(says(target)) if says else False
