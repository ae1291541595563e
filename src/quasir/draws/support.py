"""Whether the proposal reaches what the target allows: where q = 0, no draw can show it.

Where the target's items can be listed, the mass that q cuts off is known before anything is
drawn. Where they cannot, some draws of the base, scored by the proposal, show it.
"""

from __future__ import annotations

import numpy as np

from quasir.core.items import take
from quasir.core.optional import offered
from quasir.core.scores import check_log_scores, name_of, propose, score, show
from quasir.core.streams import Purpose, stream
from quasir.core.types import Items, Proposal, Target
from quasir.draws.base_check import BaseCheck
from quasir.draws.ceiling import base_share, reaches_all
from quasir.errors import InputError
from quasir.targets.product import Product

__all__ = ["BASE_DRAWS", "check_by_base", "refuse_cut_support"]

LISTED = 100_000
"""Items that are listed, at most: scoring more takes longer than it is worth."""
BASE_DRAWS = 256
"""Draws of the base that are scored by the proposal."""


def refuse_cut_support(target: Target, proposal: Proposal) -> None:
    """Refuse a proposal that gives probability 0 to listed items that the target allows.

    Raises
    ------
    InputError
        With the mass of the target that would be cut off.
    """
    support = _support_of(target)
    if support is None or not 0 < len(support) <= LISTED:
        return
    if not callable(getattr(proposal, "log_prob", None)):
        return  # not a proposal, which drawing from it will say
    log_p = score(target, support)
    total = np.logaddexp.reduce(log_p)
    if total == -np.inf:
        return
    log_q = check_log_scores(proposal.log_prob(support), support, name_of(proposal), "log q")
    cut = np.flatnonzero((log_p > -np.inf) & (log_q == -np.inf))
    mass = float(np.exp(np.logaddexp.reduce(log_p[cut]) - total)) if len(cut) else 0.0
    if mass > 0:
        worst = int(cut[np.argmax(log_p[cut])])
        raise InputError(
            f"the proposal gives probability 0 to {len(cut):,} of the {len(support):,} items of "
            f"the target, such as {show(support[worst])}, which have {mass:.4g} of its mass: no "
            f"draw would show them, and TVD cannot fall below {mass:.4g}. Mix in a proposal that "
            "reaches them (qr.Mixture), or leave them out of the target."
        )


def _support_of(target: Target) -> Items | None:
    return offered(target.base if isinstance(target, Product) else target, "support")


def check_by_base(
    target: Target, proposal: Proposal, seed: int, n: int = BASE_DRAWS
) -> BaseCheck | None:
    """Draw n times from the base and score by the proposal; None if there is no base to draw from.

    It is not needed where the base is a part of the proposal, which then reaches all of it.
    """
    if not isinstance(target, Product) or base_share(proposal, target.base) > 0:
        return None
    if reaches_all(target, proposal):
        return None
    if not callable(getattr(target.base, "sample", None)):
        return None
    items, log_base = propose(target.base, n, stream(seed, Purpose.SUPPORT))
    log_p = target.scores(items, log_base=log_base).log_p
    possible = np.flatnonzero(log_p > -np.inf)
    if not len(possible):
        return BaseCheck(n, (), ())
    part = take(items, possible)
    log_q = check_log_scores(proposal.log_prob(part), part, name_of(proposal), "log q")
    log_p = log_p[possible]
    log_weight = log_p - log_base[possible]
    return BaseCheck(n, tuple((log_p - log_q).tolist()), tuple(log_weight.tolist()))
