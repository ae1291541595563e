"""Where memory runs out: half the batch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from quasir.errors import QuasirWarning

__all__ = ["with_less_memory"]

Result = TypeVar("Result")


def with_less_memory(model: Any, work: Callable[[int], Result]) -> Result:
    """Do `work(rows)`, and where memory runs out halve the model's rows and do it again."""
    while True:
        try:
            return work(model._rows)
        except RuntimeError as error:
            if not _out_of_memory(error) or model._rows <= 1:
                raise
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            model._rows //= 2
            warnings.warn(
                f"out of memory: going on with {model._rows} texts at once.",
                QuasirWarning,
                stacklevel=3,
            )


def _out_of_memory(error: RuntimeError) -> bool:
    if isinstance(error, torch.OutOfMemoryError):
        return True
    message = str(error).lower()
    return "not enough memory" in message or "can't allocate memory" in message
