"""Noise in the ratios: what it adds to TVD, where scores are not what draws were made with.

A server, or a model in bfloat16, scores given texts with other rounding than that which drew them.
Let every log ratio
that is used differ from the true one by at most delta. What a certificate says is then true of the
target with noise, whose probabilities are within a factor e^delta of P(x): it is within
tanh(delta/2) of p in TVD, and so that much is added to every TVD. docs/servers.md has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from quasir.core.types import Proposal, Target, optional_attribute
from quasir.targets.product import Product

NEGLIGIBLE = 1e-4
"""Noise in nats that scores in float32 have anyway."""


def tvd_of_noise(delta: float) -> float:
    """Return the most that noise of at most delta nats in each log ratio adds to a TVD.

    Examples
    --------
    >>> tvd_of_noise(0.0), round(tvd_of_noise(0.01), 6)
    (0.0, 0.005)
    """
    return math.tanh(delta / 2)


def log_ratio_noise(target: Target, proposal: Proposal) -> float:
    """Return the noise of a log ratio, in nats: that of the texts that are scored as given ones.

    The base's own draws have log a = log q, without noise. A mixture with the base uses the same
    log a in P(x) and in q(x), so that no ratio exceeds its ceiling by noise.
    """
    base = target.base if isinstance(target, Product) else target
    if proposal is base:
        return 0.0
    parts = [_mismatch(part) for part in _components(proposal) if part is not base]
    scored_again = parts if len(list(_components(proposal))) > 1 else []
    return _mismatch(base) + max(scored_again, default=0.0)


def noise_warnings(target: Target, proposal: Proposal) -> tuple[str, ...]:
    """Return what noise does to the certificate, if it does anything."""
    delta = log_ratio_noise(target, proposal)
    if delta <= NEGLIGIBLE:
        return ()
    return (
        f"Given texts are scored up to {delta:.2g} nats away from what they were drawn with, "
        "as far as a few texts showed. If no ratio is off by more, this adds at most "
        f"{tvd_of_noise(delta):.2g} to every TVD here, a guaranteed one too. A model in float32 "
        "has less noise (docs/servers.md).",
    )


def _mismatch(part: Any) -> float:
    return float(optional_attribute(part, "mismatch"))


def _components(proposal: Any) -> Iterator[Any]:
    for part in getattr(proposal, "components", None) or [proposal]:
        if part is proposal:
            yield part
        else:
            yield from _components(part)
