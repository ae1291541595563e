"""Check that q covers the support of P: where q = 0, no draw can show it.

Where the target's items can be listed, the mass that q cuts off is known before anything is
drawn. Where they cannot, some draws of the base, scored by the proposal, show it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from quasir.core.formatting import short_repr
from quasir.core.items import take
from quasir.core.scores import check_log_scores, log_prob_of, name_of, propose, score
from quasir.core.streams import Purpose, stream
from quasir.core.types import Proposal, Target, optional_attribute, overridden_together
from quasir.draws.ceiling import log_base_ratio, reaches_all
from quasir.errors import InputError, StoreError
from quasir.targets.product import Product

LISTED = 100_000  # items that are listed, at most: scoring more takes longer than it is worth
BASE_DRAWS = 256  # draws of the base that are scored by the proposal
FAR = math.log(2.0)  # a ratio more than twice the largest one seen is far above it
WORTH_SAYING = 0.01  # share of the target's mass above which the warning is raised


@dataclass(frozen=True)
class BaseCheck:
    """Draws of the base that the target allows, scored by the proposal."""

    draws: int  # of the base
    log_ratio: tuple[float, ...]  # log P/q of those with P(x) > 0; infinite where q = 0
    log_weight: tuple[float, ...]  # log P/a of the same

    def share_above(self, log_ratio: float) -> tuple[float, int]:
        """Return the share of the target's mass above a ratio, and how many draws show it."""
        weights = np.array(self.log_weight)
        weights = np.exp(weights - weights.max(initial=-np.inf))
        above = np.array(self.log_ratio) > log_ratio
        total = float(weights.sum())
        return (float(weights[above].sum()) / total if total else 0.0), int(above.sum())

    def warnings(self, largest: float) -> tuple[str, ...]:
        """Return what they show, `largest` being the largest log ratio among the run's draws."""
        who = f"of {len(self.log_ratio):,} draws of the base that the target allows have"
        share, count = self.share_above(np.finfo(np.float64).max)
        if count:
            return (
                f"{count:,} {who} q = 0: about {share:.2g} of the target's mass is out of the "
                "proposal's reach. TVD cannot fall below that, KL is infinite, and no other draw "
                "shows it. Mix in the base (Mixture).",
            )
        share, count = self.share_above(largest + FAR)
        if share > WORTH_SAYING:
            return (
                f"{count:,} {who} ratios of more than twice the largest that was drawn: about "
                f"{share:.2g} of the target's mass lies where the proposal hardly ever goes, so "
                "TVD, KL and the bound are larger than they seem. Mix in the base (Mixture).",
            )
        return ()

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any] | None) -> BaseCheck | None:
        """Read what `to_dict` wrote; None where nothing was checked."""
        if facts is None:
            return None
        try:
            ratios = tuple(math.inf if x is None else float(x) for x in facts["log_ratio"])
            weights = tuple(float(x) for x in facts["log_weight"])
            if len(ratios) != len(weights):
                raise ValueError("its columns have different lengths")
            return cls(int(facts["draws"]), ratios, weights)
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"the manifest's base_check cannot be read ({error}).") from error

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary; an infinite ratio is None."""
        ratios = [x if math.isfinite(x) else None for x in self.log_ratio]
        return {"draws": self.draws, "log_ratio": ratios, "log_weight": list(self.log_weight)}


def refuse_cut_support(target: Target, proposal: Proposal) -> None:
    """Refuse a proposal that gives probability 0 to a part of the target, where that is known.

    It is known where the target's items can be listed, or are numbers with known quantiles, as
    those of `scipy.stats` are: then points stand for all of them. No point stands for two sides
    of an end of the proposal's support, so the cut mass is exact where the target has no factors.
    Masses below 1e-18 are left out.
    """
    base, is_listed = target.base if isinstance(target, Product) else target, True
    items, strata = (optional_attribute(base, name) for name in ("support", "strata"))
    if items is None and strata is not None and overridden_together(base, "strata", "log_prob"):
        items, log_mass = strata(optional_attribute(proposal, "ends"))
        is_listed = False
    if items is None or not 0 < len(items) <= LISTED:
        return
    log_p = score(target, items)
    if not is_listed:  # P here is b(x) times the base's mass, not its density
        with np.errstate(invalid="ignore"):
            log_b = log_p - log_prob_of(base, items, "log a")
        log_p = np.where(log_p > -np.inf, log_b + log_mass, -np.inf)
    total = np.logaddexp.reduce(log_p)
    if total == -np.inf:
        return
    log_q = check_log_scores(proposal.log_prob(items), items, name_of(proposal), "log q")
    cut = np.flatnonzero((log_p > -np.inf) & (log_q == -np.inf))
    mass = float(np.exp(np.logaddexp.reduce(log_p[cut]) - total)) if len(cut) else 0.0
    if mass > 0:
        item = items[int(cut[np.argmax(log_p[cut])])]
        worst = short_repr(item.item() if isinstance(item, np.generic) else item)
        what = (
            f"{len(cut):,} of the {len(items):,} items of the target, such as {worst}, which have "
            if is_listed
            else f"a part of the target, around {worst} for example, which has "
        )
        raise InputError(
            f"the proposal gives probability 0 to {what}{mass:.4g} of its mass: no draw would show "
            f"it, and TVD cannot fall below {mass:.4g}. Mix in one that reaches it (qr.Mixture)."
        )


def check_by_base(
    target: Target, proposal: Proposal, seed: int, n: int = BASE_DRAWS
) -> BaseCheck | None:
    """Draw n times from the base and score by the proposal; None if that cannot show anything."""
    if not isinstance(target, Product) or log_base_ratio(proposal, target.base) < math.inf:
        return None
    can = callable(getattr(target.base, "sample", None))
    if reaches_all(target, proposal) or not can or not optional_attribute(proposal, "scores_given"):
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
