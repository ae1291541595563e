"""Rows of a store: columns of numbers by name, and the items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from quasir.core.types import Items

__all__ = ["CONTEXT", "FEATURE", "Rows"]

FEATURE = "feature:"
"""Prefix of the name of a feature's column."""
CONTEXT = "context"
"""The column of a run over contexts that says which context a draw is of."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Draws as a store keeps them.

    Attributes
    ----------
    columns : dict
        log_q, log_p, log_u, log_base if it is known, and `feature:NAME` for each feature.
    items : column of items, or None
    """

    columns: dict[str, NDArray[Any]]
    items: Items = None

    def __len__(self) -> int:
        return len(self.columns["log_q"])
