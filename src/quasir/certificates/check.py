"""A check: a moment observed on samples, and the moment that the certificate predicted."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from quasir.core.arguments import number, show
from quasir.errors import InputError

__all__ = ["MAX_Z", "Check"]

MAX_Z = 4.0
"""A larger |z| comes by chance once in 16,000 checks, so the two moments disagree."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One moment, observed and predicted, each with its standard error.

    Examples
    --------
    >>> from dataclasses import replace
    >>> good = Check(name="female", observed=0.49, observed_se=0.01, predicted=0.50,
    ...              predicted_se=0.01, z=-0.7)
    >>> good.doubtful, replace(good, observed=0.42, z=-5.7).doubtful
    (False, True)
    """

    name: str
    observed: float
    observed_se: float
    predicted: float
    predicted_se: float
    z: float

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InputError(f"the name of a check is {show(self.name)}, but must be a string.")
        for name in ("observed", "observed_se", "predicted", "predicted_se", "z"):
            number(f"the {name} of a check", getattr(self, name), nan=True)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary; a number that is not finite becomes None."""
        return {
            key: value if isinstance(value, str) or math.isfinite(value) else None
            for key, value in asdict(self).items()
        }

    @property
    def doubtful(self) -> bool:
        """Whether the two moments disagree by more than chance explains."""
        return abs(self.z) > MAX_Z
