"""Memory: half the batch where it ran out, and not asking the system for the same pages again."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from quasir.errors import QuasirWarning

__all__ = ["keep_freed_memory", "with_less_memory"]

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


def keep_freed_memory() -> None:
    """Tell glibc, where there is one, to hand freed memory out again; for a process of our own.

    Large arrays are otherwise mapped anew at every step, and zeroing their pages takes time: 30 %
    of a training step of the built-in model.
    """
    trim_threshold, mmap_max = -1, -4
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(mmap_max, 0)
        mallopt(trim_threshold, 2**31 - 1)
