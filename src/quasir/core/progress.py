"""Progress of a call: a report for one loop, and a reporter for work of several stages."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeAlias

__all__ = ["Lines", "Progress", "Quiet", "Report", "Reporter", "progress_of"]

Report: TypeAlias = Callable[[int, int, int], object]
"""Called with (done, wanted, proposed)."""
Progress: TypeAlias = bool | Report


class Reporter(Protocol):
    """Shows the user the progress of work of several stages."""

    def say(self, message: str) -> None:
        """Show a message."""
        ...

    def stage(self, label: str) -> AbstractContextManager[Report]:
        """Begin a stage; call the yielded report with the stage's progress."""
        ...


class Quiet:
    """A reporter that shows nothing."""

    def say(self, message: str) -> None:
        """Show nothing."""

    @contextmanager
    def stage(self, label: str) -> Iterator[Report]:
        """Show nothing of the stage."""
        yield progress_of(False, label)


class Lines:
    """A reporter that writes to stderr; each stage has one line, which is rewritten."""

    def say(self, message: str) -> None:
        """Write a line."""
        print(message, file=sys.stderr, flush=True)

    @contextmanager
    def stage(self, label: str) -> Iterator[Report]:
        """Rewrite a line as the stage goes on."""
        yield progress_of(True, label)


def progress_of(progress: Progress, verb: str) -> Report:
    """Return a report: one that shows nothing, one that rewrites a line, or the user's own."""
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
