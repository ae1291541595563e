"""Smaller batches when memory runs out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

import torch

from quasir.errors import QuasirWarning

__all__ = ["BatchHalving"]

Result = TypeVar("Result")


class BatchHalving:
    """A model that processes at most `_rows` texts at once, and halves that if memory runs out."""

    _rows: int

    def _with_less_memory(self, work: Callable[[int], Result]) -> Result:
        """Return `work(rows)`; if memory runs out, halve the rows and try again."""
        while True:
            try:
                return work(self._rows)
            except RuntimeError as error:
                if not _out_of_memory(error) or self._rows <= 1:
                    raise
                if torch.cuda.is_available():
                    torch.cuda.empty_cache()
                self._rows //= 2
                warnings.warn(
                    f"out of memory: going on with {self._rows} texts at once.",
                    QuasirWarning,
                    stacklevel=3,
                )


def _out_of_memory(error: RuntimeError) -> bool:
    if isinstance(error, torch.OutOfMemoryError):
        return True
    message = str(error).lower()
    return "not enough memory" in message or "can't allocate memory" in message
