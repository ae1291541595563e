"""What is known about the ratios before anything is drawn: what promises can rest on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quasir.core.arguments import number
from quasir.core.types import Array
from quasir.errors import InputError, StoreError

__all__ = ["Known", "vouched"]

ROUNDING = 1e-9
"""How far above the ceiling rounding may put a log ratio."""
UNKNOWN = "Nothing is known about the ratios P(x)/q(x) that were not drawn."


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is known about the ratios and the features of a target and a proposal.

    Attributes
    ----------
    log_ceiling : float
        Upper bound on every log ratio, drawn or not; infinite if none is known.
    log_z : float or None
        Log of Z, if that is known exactly.
    log_most : float
        Log of B, with b(x) <= B for every x; infinite if none is known.
    bounds : dict
        Name of each feature that declares both -> its least and its greatest value.
    basis : str
        One sentence: why the ceiling or Z is known, or why neither is.
    """

    log_ceiling: float = math.inf
    log_z: float | None = None
    log_most: float = math.inf
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    basis: str = UNKNOWN

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary; what is not finite is left out."""
        numbers = {
            "log_ceiling": self.log_ceiling,
            "log_z": math.inf if self.log_z is None else self.log_z,
            "log_most": self.log_most,
        }
        return {
            **{name: x for name, x in numbers.items() if math.isfinite(x)},
            "bounds": {name: list(ends) for name, ends in self.bounds.items()},
            "basis": self.basis,
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any] | None) -> Known:
        """Read what `to_dict` wrote; None was written by a version that took less care.

        Raises
        ------
        StoreError
            If it is not what `to_dict` writes.
        """
        if facts is None:
            return cls(
                basis="These draws were made by an earlier version, which took a feature to be "
                "boolean because its values so far were: the run must be drawn anew for a ceiling."
            )
        try:
            bounds = {str(name): (float(a), float(b)) for name, (a, b) in facts["bounds"].items()}
            return cls(
                log_ceiling=float(facts.get("log_ceiling", math.inf)),
                log_z=None if "log_z" not in facts else float(facts["log_z"]),
                log_most=float(facts.get("log_most", math.inf)),
                bounds=bounds,
                basis=str(facts["basis"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreError(
                f"what the manifest says is known cannot be read ({error}): it was edited or "
                "damaged."
            ) from error


def vouched(log_ceiling: Any, log_ratio: Array) -> dict[str, Any]:
    """Return the facts of a ceiling that the user gives; none is given by None.

    Raises
    ------
    InputError
        If it is no number, or if a ratio exceeds it.
    """
    if log_ceiling is None:
        return {}
    ceiling = number("log_ceiling", log_ceiling)
    largest = float(log_ratio.max(initial=-np.inf))
    if ceiling < largest - ROUNDING:
        raise InputError(
            f"log_ceiling is {ceiling:g}, but a draw has the log ratio {largest:g}: the ceiling "
            "must not be below any ratio, drawn or not."
        )
    return {
        "log_ceiling": ceiling,
        "basis": f"It rests on the ceiling e^{ceiling:.6g} of the ratios, which the user gave.",
    }
