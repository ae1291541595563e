"""The ceiling: a number that no ratio P(x)/q(x) exceeds, known before anything is drawn.

If q is the target's own base, or a mixture that gives it the share s, then q(x) >= s a(x), and so
P(x)/q(x) = a(x) b(x)/q(x) <= b(x)/s. The largest b is known if the features declare their bounds.
At a beta at or above the ceiling, QRS is rejection sampling: p_beta is exactly p.

A ceiling is believed from what was declared, never from what was drawn: a feature may be a number
on an item that comes later.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quasir.core.optional import offered, speaks_for
from quasir.core.scores import name_of
from quasir.core.types import Proposal, Target
from quasir.draws.known import Known
from quasir.proposals.mixture import Mixture
from quasir.targets.feature import Feature
from quasir.targets.product import Product

__all__ = ["base_share", "known_of", "log_base_ratio", "reaches_all"]


def known_of(target: Target, proposal: Proposal) -> Known:
    """Return what is known about the ratios, by what target and proposal declare.

    Examples
    --------
    >>> from scipy import stats
    >>> import quasir as qr
    >>> base = qr.from_scipy(stats.poisson(3))
    >>> even = qr.Feature("even", lambda x: x % 2 == 0, boolean=True)
    >>> known = known_of(base * qr.tilt(even, np.log(4)), base)
    >>> round(math.exp(known.log_ceiling), 9)
    4.0
    >>> known.basis[:48]
    'No ratio exceeds 4: the proposal is the base, an'
    """
    bounds = {f.name: f.bounds for f in _features(target) if _is_bounded(f)}
    log_most, why_not = _log_most(target)
    base = target.base if isinstance(target, Product) else target
    log_base = log_base_ratio(proposal, base, target)
    log_z = _log_z(target)
    ceiling = log_most + log_base
    if ceiling < math.inf:
        return Known(
            log_ceiling=ceiling,
            log_z=log_z,
            log_most=log_most,
            bounds=bounds,
            basis=_because(proposal, base, log_most, log_base),
        )
    if log_z is not None:
        basis = f"Z is known to be {_shown(log_z)}: the target is a distribution itself."
        return Known(log_z=log_z, bounds=bounds, basis=basis)
    if log_base == math.inf:
        why_not = "the proposal does not contain the base: mix it in with qr.Mixture"
    basis = f"No ceiling of the ratios is known, since {why_not}."
    return Known(log_most=log_most, bounds=bounds, basis=basis)


def log_base_ratio(proposal: Proposal, base: Any, target: Target | None = None) -> float:
    """Return a log M with a(x) <= M q(x) wherever P(x) > 0, or infinity if no M is known.

    For a mixture of parts q_j with a <= M_j q_j, it is 1/(the sum of weight_j/M_j).
    """
    if proposal is base:
        return 0.0
    if isinstance(proposal, Mixture) and type(proposal).log_prob is Mixture.log_prob:
        parts = zip(proposal.components, proposal.weights, strict=True)
        shares = [math.log(weight) - log_base_ratio(part, base, target) for part, weight in parts]
        return float(max(-np.logaddexp.reduce(shares), 0.0))
    says = offered(proposal, "log_most_base_ratio")
    if says is None or not speaks_for(proposal, "log_most_base_ratio", "log_prob"):
        return math.inf
    return float(says(base, target))


def reaches_all(target: Target, proposal: Proposal) -> bool:
    """Return whether q(x) > 0 wherever P(x) > 0, as far as the proposal says so."""
    says = offered(proposal, "reaches")
    return bool(says(target)) if says else False


def base_share(proposal: Proposal, base: Any) -> float:
    """Return the share of the base in a proposal, as far as it is known: q(x) >= share a(x)."""
    return math.exp(-log_base_ratio(proposal, base))


def _features(target: Target) -> list[Feature]:
    return list(target.features) if isinstance(target, Product) else []


def _is_bounded(feature: Feature) -> bool:
    low, high = feature.bounds
    return -math.inf < low < high < math.inf and speaks_for(feature, "_checked", "__call__")


def _is_plain(target: Product) -> bool:
    """Return whether a product scores as `Product` does."""
    return (type(target).scores, type(target).log_score) == (Product.scores, Product.log_score)


def _log_z(target: Target) -> float | None:
    """Return the log of a target's own Z, if it says so; a base without factors is normalised."""
    if isinstance(target, Product):
        return 0.0 if not target.factors and _is_plain(target) else None
    log_z = offered(target, "log_z")
    return float(log_z) if log_z is not None and speaks_for(target, "log_z", "log_score") else None


def _log_most(target: Target) -> tuple[float, str]:
    """Return the log of the largest b(x), and why it is infinite where it is."""
    if not isinstance(target, Product):
        log_z = _log_z(target)
        return (math.inf, "the target has no base") if log_z is None else (log_z, "")
    if not _is_plain(target):
        return math.inf, f"{name_of(target)} scores in a way of its own"
    most = 0.0
    for factor in target.factors:
        says = offered(factor, "log_most")
        if says is None or not speaks_for(factor, "log_most", "log_factor"):
            return math.inf, f"the factor {factor} does not say how large it can be"
        if not speaks_for(factor.feature, "_checked", "__call__"):
            return math.inf, f"the feature {factor.feature.name!r} does not check its values"
        log_most = says()
        if not log_most < math.inf:
            name = factor.feature.name
            return math.inf, (
                f"the feature {name!r} declares no bounds: say boolean=True, or low and high, "
                "where you make it"
            )
        most += log_most
    return most, ""


def _because(proposal: Proposal, base: Any, log_most: float, log_base: float) -> str:
    if proposal is base:
        share = "the proposal is the base"
    elif isinstance(proposal, Mixture):
        share = f"the base has a share of at least {math.exp(-log_base):.3g} in the proposal"
    else:
        least = f"{math.exp(-log_base):.3g}"
        share = f"q(x) is at least {least} times a(x) for every x that the target allows"
    said = f", and b(x) is at most {_shown(log_most)} by what its features declare"
    return f"No ratio exceeds {_shown(log_most + log_base)}: {share}{said if log_most else ''}."


def _shown(log: float) -> str:
    return f"{math.exp(log):.4g}" if abs(log) < 200 else f"e^{log:.6g}"
