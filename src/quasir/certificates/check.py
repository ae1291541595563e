"""A check: a moment observed on samples beside the one that the certificate predicted."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["MAX_Z", "Check"]

MAX_Z = 4.0
"""A z beyond this comes by chance once in 16,000 checks: the two figures do not agree."""


@dataclass(frozen=True)
class Check:
    """One moment, observed and predicted, each with its standard error.

    Examples
    --------
    >>> Check("female", 0.49, 0.01, 0.50, 0.01, z=-0.7).doubtful
    False
    >>> Check("female", 0.42, 0.01, 0.50, 0.01, z=-5.7).doubtful
    True
    """

    name: str
    observed: float
    observed_se: float
    predicted: float
    predicted_se: float
    z: float

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary; what is not finite is None."""
        return {
            key: value if isinstance(value, str) or math.isfinite(value) else None
            for key, value in asdict(self).items()
        }

    @property
    def doubtful(self) -> bool:
        """Whether the two disagree by more than chance explains."""
        return abs(self.z) > MAX_Z
