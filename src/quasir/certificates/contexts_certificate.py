"""The certificate of all contexts together: means over them, and a guarantee about the mean TVD."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quasir.certificates.certificate import NOT_IID, Certificate
from quasir.core.formatting import rounded_up, wrapped
from quasir.estimation.estimate import Estimate, Key, Moment
from quasir.estimation.guarantee import LEVELS, MeanGuarantee
from quasir.estimation.quantities import QUANTITIES, Estimated, title_of

MEANS = ("acceptance_rate", "tvd", "kl")  # the quantities whose mean over contexts means something
ADAPTIVE = (
    "Draw counts adapt to earlier draws. This biases estimates slightly, and their errors do not "
    "say so; guarantees stay valid."
)


def mean_of(parts: Sequence[Estimate], low: float = -math.inf, high: float = math.inf) -> Estimate:
    """Return the mean of independent estimates; the squares of their errors add up."""
    k = len(parts)
    value = float(np.mean([part.value for part in parts]))

    def side(distances: list[float]) -> float:
        return math.sqrt(sum(d * d for d in distances)) / k

    se = side([part.se for part in parts])
    below = side([part.value - part.low for part in parts])
    above = side([part.high - part.value for part in parts])
    proved = all(bool(part.proved) for part in parts)
    return Estimate(value, se, max(value - below, low), min(value + above, high), proved)


@dataclass(frozen=True, kw_only=True)
class ContextsCertificate(Estimated):
    """What holds over all contexts: means over the served ones; each is also an attribute."""

    contexts: int  # of the run
    served: int  # those with a certificate; means and guarantee are about them
    n: int  # draws of all contexts
    estimates: Mapping[Key, Estimate]  # also `proposals`, what a sample costs
    guarantee: MeanGuarantee | None
    basis: str  # what the guarantee is, or why there is none
    unserved: Mapping[int, str] = field(default_factory=dict)  # place of a context -> why
    suspicious: int = 0  # served contexts with warnings
    note: str = ADAPTIVE  # what the choices by the draws mean for estimates and samples

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary; a number that is not finite becomes None."""
        known = {k: e.to_dict() for k, e in self.estimates.items() if isinstance(k, str)}
        guarantee = None
        if self.guarantee is not None:
            levels = zip(LEVELS.tolist(), self.guarantee.above.tolist(), strict=True)
            guarantee = {
                "tvd": self.guarantee.tvd,
                "confidence": self.guarantee.confidence,
                "contexts_above": [[round(level, 6), most] for level, most in levels],
            }
        return {
            "contexts": self.contexts,
            "served": self.served,
            "n": self.n,
            **known,
            "moments": {name: part.to_dict() for name, part in self.moments.items()},
            "guarantee": guarantee,
            "basis": self.basis,
            "note": self.note,
            "suspicious": self.suspicious,
            "unserved": {str(place): why for place, why in self.unserved.items()},
        }

    def __str__(self) -> str:
        lines = [f"{self.served:,} of {self.contexts:,} contexts, {self.n:,} draws in all; means:"]
        for key, part in self.estimates.items():
            title = "proposals per sample" if key == "proposals" else title_of(key)
            lines.append(f"  {title:<19} {part}")
        if self.guarantee is not None:
            at = f"guaranteed, {self.guarantee.confidence:.4g}"
            lines.append(f"  {at:<19} mean TVD at most {rounded_up(self.guarantee.tvd):.3g}")
        lines += wrapped(self.basis, "    ", "    ")
        lines += wrapped(self.note, "  ", "  ")
        if self.suspicious:
            lines.append(
                f"  ! {self.suspicious:,} of the served contexts have warnings of their own."
            )
        for place, why in list(self.unserved.items())[:10]:
            lines += wrapped(f"! context {place} is not served: {why}", "  ", "    ")
        if len(self.unserved) > 10:
            lines.append(f"  ! and {len(self.unserved) - 10:,} more are not served.")
        return "\n".join(lines)


def certify_contexts(
    certificates: Sequence[Certificate],
    *,
    contexts: int,
    n: int,
    guarantee: MeanGuarantee | None,
    unserved: Mapping[int, str],
) -> ContextsCertificate:
    """Return the certificate of all contexts from those of the served ones."""
    estimates: dict[Key, Estimate] = {}
    if certificates:
        shared = [name for name in MEANS if all(name in c.estimates for c in certificates)]
        for name in shared:
            quantity = QUANTITIES[name]
            parts = [c.estimates[name] for c in certificates]
            estimates[name] = mean_of(parts, quantity.low, quantity.high)
            if name == "acceptance_rate":
                estimates["proposals"] = mean_of([_inverse(part) for part in parts], low=1.0)
        for feature in certificates[0].moments:
            parts = [c.moments[feature] for c in certificates if feature in c.moments]
            if len(parts) == len(certificates):
                estimates[Moment(feature)] = mean_of(parts)
    return ContextsCertificate(
        contexts=contexts,
        served=len(certificates),
        n=n,
        estimates=estimates,
        guarantee=guarantee,
        basis=_basis(guarantee),
        unserved=unserved,
        suspicious=sum(bool(c.warnings) for c in certificates),
        note=ADAPTIVE + (f" {NOT_IID}" if any(c.choice for c in certificates) else ""),
    )


def _inverse(rate: Estimate) -> Estimate:
    """Return 1 over an acceptance rate: the proposals that a sample costs."""
    if not rate.value > 0:
        return Estimate(math.inf, math.nan, 1.0, math.inf)
    value = 1.0 / rate.value
    high = 1.0 / rate.low if rate.low > 0 else math.inf
    return Estimate(value, rate.se * value**2, 1.0 / max(rate.high, rate.value), high, rate.proved)


def _basis(guarantee: MeanGuarantee | None) -> str:
    if guarantee is None:
        return (
            "Nothing is guaranteed about the mean TVD: no context has a ceiling of its ratios, or "
            "a known Z. Mix the proposals with the base, and declare the bounds of the features."
        )
    return (
        "The mean is over the served contexts. It holds for betas and numbers of draws that "
        "followed the draws; a context about which nothing is known counts as 1. It allows for "
        "contexts whose own guarantee fails, so it can be above the contexts' own guarantees "
        "(docs/howto/contexts.md)."
    )
