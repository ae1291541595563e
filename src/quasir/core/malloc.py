"""How glibc hands out memory, in processes that run quasir alone."""

from __future__ import annotations

import ctypes

__all__ = ["keep_freed_memory"]


def keep_freed_memory() -> None:
    """Make glibc, if it is used, reuse freed memory; call it only in a process of our own.

    Large arrays are otherwise mapped anew each time, and zeroing their pages takes time: 30 % of a
    training step of the built-in model, and more than half of binning a shard of draws.
    """
    trim_threshold, mmap_max = -1, -4
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(mmap_max, 0)
        mallopt(trim_threshold, 2**31 - 1)
