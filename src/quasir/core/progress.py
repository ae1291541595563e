"""A line on stderr that says how far a call has come."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeAlias

__all__ = ["Progress", "Report", "progress_of"]

Report: TypeAlias = Callable[[int, int, int], object]
Progress: TypeAlias = bool | Report


def progress_of(progress: Progress, verb: str) -> Report:
    """Return what to call with (done, wanted, proposed): nothing, a line, or the user's own."""
    if progress is True:
        return _Line(verb)
    if progress is False or progress is None:
        return lambda done, wanted, proposed: None
    return progress


class _Line:
    """Rewrites one line of stderr, at most ten times a second."""

    def __init__(self, verb: str) -> None:
        self.verb, self.start, self.shown = verb, time.perf_counter(), 0.0

    def __call__(self, done: int, wanted: int, proposed: int) -> None:
        now = time.perf_counter()
        if done < wanted and now - self.shown < 0.1:
            return
        self.shown = now
        rate = f", rate {done / proposed:.3g}" if proposed != done else ""
        speed = proposed / max(now - self.start, 1e-9)
        line = f"{done:,}/{wanted:,} {self.verb}, {proposed:,} proposed{rate}, {speed:,.0f}/s"
        sys.stderr.write(f"\r{line:<79}" + ("\n" if done >= wanted else ""))
        sys.stderr.flush()
