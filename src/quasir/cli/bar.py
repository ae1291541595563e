"""Progress on stderr: a bar in a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

__all__ = ["Bar", "Bars", "clock", "say"]

EVERY = 5.0
"""Seconds between two lines where stderr is no terminal."""


def say(message: str) -> None:
    """Tell the user something on stderr."""
    print(message, file=sys.stderr, flush=True)


class Bar:
    """A callable for `progress=`: shows how far, how fast, and how long still."""

    def __init__(self, label: str) -> None:
        self.label, self.start, self.told = label, time.monotonic(), 0.0
        self.bar: Progress | None = None
        if sys.stderr.isatty():
            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[state]}"),
                console=Console(stderr=True),
            )
            self.task = self.bar.add_task(label, total=None, state="")

    def __enter__(self) -> Self:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            self.bar.stop()
        if kind is KeyboardInterrupt:
            say("stopped: what was drawn is kept, and the same command goes on")

    def __call__(self, done: int, wanted: int, proposed: int) -> None:
        """Show that `done` of `wanted` are there."""
        now = time.monotonic()
        speed = done / max(now - self.start, 1e-9)
        left = (wanted - done) / speed if speed else 0.0
        state = f"{done:,}/{wanted:,}  {speed:,.0f}/s  {clock(left)} left"
        if self.bar is not None:
            self.bar.update(self.task, total=wanted, completed=done, state=state)
        elif now - self.told > EVERY or done >= wanted:
            self.told = now
            say(f"{self.label}: {state}")


def clock(seconds: float) -> str:
    """Return a time as h:mm:ss or m:ss.

    Examples
    --------
    >>> clock(65), clock(3700)
    ('1:05', '1:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Bars:
    """A reporter with a bar for each stage."""

    def say(self, message: str) -> None:
        """Tell the user something on stderr."""
        say(message)

    def stage(self, label: str) -> Bar:
        """Return the bar of a stage."""
        return Bar(label)
