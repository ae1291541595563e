"""What is known before anything is drawn: a ceiling of P/q, Z, and whether q covers P's support.

If q gives the base a share s, then P(x)/q(x) = a(x) b(x)/q(x) <= b(x)/s, and the largest b is known
if the features declare their bounds. A ceiling follows from what was declared, never from draws.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quasir.core.arguments import number
from quasir.core.formatting import level_text, short_repr
from quasir.core.items import take
from quasir.core.scores import check_log_scores, log_prob_of, name_of, propose, score
from quasir.core.streams import Purpose, stream
from quasir.core.types import Array, Proposal, Target, optional_attribute, overridden_together
from quasir.errors import InputError, StoreError
from quasir.proposals.mixture import Mixture
from quasir.targets.feature import Feature
from quasir.targets.product import Product

ROUNDING = 1e-9  # how far above the ceiling rounding may put a log ratio
UNKNOWN = "Nothing is known about the ratios P(x)/q(x) that were not drawn."


@dataclass(frozen=True, kw_only=True)
class RatioBounds:
    """What is known before anything is drawn: what guarantees can rest on."""

    log_ceiling: float = math.inf  # upper bound on every log ratio, drawn or not
    log_z: float | None = None  # log of Z, if that is known exactly
    log_most: float = math.inf  # log of B, with b(x) <= B for every x
    # Of each feature that declares both: its least and its greatest value.
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    basis: str = UNKNOWN  # one sentence: why the ceiling or Z is known, or why neither is

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary; what is not finite is left out."""
        numbers = {name: getattr(self, name) for name in ("log_ceiling", "log_z", "log_most")}
        return {
            **{name: x for name, x in numbers.items() if x is not None and math.isfinite(x)},
            "bounds": {name: list(ends) for name, ends in self.bounds.items()},
            "basis": self.basis,
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any] | None) -> RatioBounds:
        """Read what `to_dict` wrote; None says nothing."""
        if facts is None:
            return cls()
        try:
            names = ("log_ceiling", "log_z", "log_most")
            return cls(
                **{name: float(facts[name]) for name in names if name in facts},
                bounds={
                    str(name): (float(a), float(b)) for name, (a, b) in facts["bounds"].items()
                },
                basis=str(facts["basis"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreError(f"the manifest's `known` cannot be read ({error}).") from error


def user_ceiling(log_ceiling: Any, log_ratio: Array) -> dict[str, Any]:
    """Return the facts of a ceiling that the user gives; none is given by None."""
    if log_ceiling is None:
        return {}
    ceiling = number("log_ceiling", log_ceiling)
    largest = float(log_ratio.max(initial=-np.inf))
    if ceiling < largest - ROUNDING:
        raise InputError(f"log_ceiling is {ceiling:g}, but a draw has the log ratio {largest:g}.")
    return {
        "log_ceiling": ceiling,
        "basis": f"It rests on the ceiling e^{ceiling:.6g} of the ratios, which the user gave.",
    }


def ratio_bounds(target: Target, proposal: Proposal) -> RatioBounds:
    """Return what is known about the ratios, by what target and proposal declare."""
    bounds = declared_bounds(target.features if isinstance(target, Product) else ())
    log_most, why_not = _log_most(target)
    base = target.base if isinstance(target, Product) else target
    log_base = log_base_ratio(proposal, base, target)
    log_z = _log_z(target)
    ceiling = log_most + log_base
    if ceiling < math.inf:
        basis = _because(target, proposal, log_most, log_base)
        facts: dict[str, Any] = {"log_ceiling": ceiling, "log_z": log_z, "log_most": log_most}
        return RatioBounds(**facts, bounds=bounds, basis=basis)
    if log_z is not None:
        why = "the target declares it as its log_z, the log of the sum of P(x) over all x"
        if abs(log_z) < ROUNDING:
            why = "the target is a distribution itself"
        basis = f"Z is known to be {level_text(log_z)}: {why}."
        return RatioBounds(log_z=log_z, bounds=bounds, basis=basis)
    if log_base == math.inf:
        why_not = "the proposal does not contain the base: mix it in with qr.Mixture"
    basis = f"No ceiling of the ratios is known, since {why_not}."
    return RatioBounds(log_most=log_most, bounds=bounds, basis=basis)


def log_base_ratio(proposal: Proposal, base: Any, target: Target | None = None) -> float:
    """Return a log M with a(x) <= M q(x) wherever P(x) > 0, or infinity if no M is known."""
    # For a mixture of parts q_j with a <= M_j q_j, it is 1/(the sum of weight_j/M_j).
    if proposal is base:
        return 0.0
    if isinstance(proposal, Mixture) and type(proposal).log_prob is Mixture.log_prob:
        parts = zip(proposal.components, proposal.weights, strict=True)
        shares = [math.log(weight) - log_base_ratio(part, base, target) for part, weight in parts]
        return float(max(-np.logaddexp.reduce(shares), 0.0))
    says = optional_attribute(proposal, "log_most_base_ratio")
    if says is None or not overridden_together(proposal, "log_most_base_ratio", "log_prob"):
        return math.inf
    return float(says(base, target))


def reaches_all(target: Target, proposal: Proposal) -> bool:
    """Return whether q(x) > 0 wherever P(x) > 0, as far as the proposal says so."""
    says = optional_attribute(proposal, "reaches")
    return bool(says(target)) if says else False


def declared_bounds(features: Iterable[Feature]) -> dict[str, tuple[float, float]]:
    """Return the least and the greatest value of each feature that declares both."""
    checked = [f for f in features if overridden_together(f, "_checked", "__call__")]
    return {f.name: f.bounds for f in checked if -math.inf < f.bounds[0] < f.bounds[1] < math.inf}


def _is_plain(target: Product) -> bool:
    return (type(target).scores, type(target).log_score) == (Product.scores, Product.log_score)


def _log_z(target: Target) -> float | None:
    """Return the log of a target's own Z, if it says so; a base without factors is normalised."""
    if isinstance(target, Product):
        return 0.0 if not target.factors and _is_plain(target) else None
    log_z = optional_attribute(target, "log_z")
    known = log_z is not None and overridden_together(target, "log_z", "log_score")
    return float(log_z) if known else None


def _log_most(target: Target) -> tuple[float, str]:
    """Return the log of the largest b(x), and why it is infinite where it is."""
    if not isinstance(target, Product):
        log_z = _log_z(target)
        return (math.inf, "the target has no base") if log_z is None else (log_z, "")
    if not _is_plain(target):
        return math.inf, f"{name_of(target)} scores in a way of its own"
    most = 0.0
    for factor in target.factors:
        says = optional_attribute(factor, "log_most")
        if says is None or not overridden_together(factor, "log_most", "log_factor"):
            return math.inf, f"the factor {factor} does not say how large it can be"
        if not overridden_together(factor.feature, "_checked", "__call__"):
            return math.inf, f"the feature {factor.feature.name!r} does not check its values"
        log_most = says()
        if not log_most < math.inf:
            said = "declares no bounds: say boolean=True, or low and high, where you make it"
            return math.inf, f"the feature {factor.feature.name!r} {said}"
        most += log_most
    return most, ""


def _because(target: Target, proposal: Proposal, log_most: float, log_base: float) -> str:
    base, name = (target.base, "base") if isinstance(target, Product) else (target, "target")
    if proposal is base:
        share = f"the proposal is the {name}"
    elif isinstance(proposal, Mixture):
        share = f"the {name} has a share of at least {math.exp(-log_base):.3g} in the proposal"
    else:
        least = math.exp(-log_base)
        share = f"q(x) is at least {least:.3g} times a(x) for every x that the target allows"
    said = f", and b(x) is at most {level_text(log_most)} by what its features declare"
    if name == "target":
        said = f", and its Z is {level_text(log_most)}"
    return f"No ratio exceeds {level_text(log_most + log_base)}: {share}{said if log_most else ''}."


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
    """Refuse a proposal that gives probability 0 to a part of the target, where that is known."""
    # It is where the target's items can be listed, or are numbers with known quantiles, as those of
    # `scipy.stats`: points then stand for all of them, on one side of each end of q's support. So
    # the cut mass is exact where the target has no factors; masses below 1e-18 are left out.
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
