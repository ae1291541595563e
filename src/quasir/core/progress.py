"""Progress of a call: a report for one loop, and a reporter for work of several stages."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeAlias

from quasir.errors import InputError

Report: TypeAlias = Callable[[int, int, int], object]  # called with (done, wanted, proposed)
Progress: TypeAlias = bool | Report | None
"""True shows a line on stderr, False nothing, None a line once the work takes seconds."""

PATIENCE = 3.0
"""Seconds of work after which a line is shown where nobody asked for one, or against it."""


class Reporter(Protocol):
    """Shows the user the progress of work of several stages.

    Examples
    --------
    >>> with Quiet().stage("drawing") as report:
    ...     report(1, 10, 1)
    """

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
    if progress is True or progress is None:
        return _Line(verb, 0.0 if progress else PATIENCE)
    if progress is False:
        return lambda done, wanted, proposed: None
    if not callable(progress):
        raise InputError(
            f"progress is a {type(progress).__name__}, but must be True, False, None or a callable."
        )
    return progress


class _Line:
    """Rewrites one line of stderr, at most ten times a second, once `patience` seconds are over."""

    def __init__(self, verb: str, patience: float = 0.0) -> None:
        self.verb, self.patience = verb, patience
        self.start, self.shown = time.perf_counter(), 0.0

    def __call__(self, done: int, wanted: int, proposed: int) -> None:
        now = time.perf_counter()
        soon = now - self.shown < 0.1 and done < wanted
        if soon or now - self.start < self.patience:
            return
        self.shown = now
        rate = f", rate {done / proposed:.3g}" if proposed != done else ""
        speed = proposed / max(now - self.start, 1e-9)
        line = f"{done:,}/{wanted:,} {self.verb}, {proposed:,} proposed{rate}, {speed:,.0f}/s"
        sys.stderr.write(f"\r{line:<79}" + ("\n" if done >= wanted else ""))
        sys.stderr.flush()
