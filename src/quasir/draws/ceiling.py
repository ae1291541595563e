"""The ceiling: a number that no ratio P(x)/q(x) exceeds, known before anything is drawn.

If q is the target's own base, or a mixture that gives it the share s, then q(x) >= s a(x), and so
P(x)/q(x) = a(x) b(x)/q(x) <= b(x)/s. The largest b is known if the features declare their bounds.
At a beta at or above the ceiling, QRS is rejection sampling: p_beta is exactly p.

A ceiling follows from what was declared, never from what was drawn: a feature may be a number
on an item that comes later.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quasir.core.arguments import number
from quasir.core.formatting import level_text
from quasir.core.scores import name_of
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
            raise StoreError(
                f"what the manifest says is known cannot be read ({error}): it was damaged."
            ) from error


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
    """Return a log M with a(x) <= M q(x) wherever P(x) > 0, or infinity if no M is known.

    For a mixture of parts q_j with a <= M_j q_j, it is 1/(the sum of weight_j/M_j).
    """
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
    """Return whether a product scores as `Product` does."""
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
