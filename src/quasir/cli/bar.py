"""Progress on stderr: a bar in a terminal, a line every few seconds in a log."""

from __future__ import annotations

import contextlib
import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

GOES_ON = "the draws are kept, and the same command goes on"
KEPT = dict.fromkeys(("fitting", "drawing", "drawing on", "looking at the contexts"), GOES_ON) | {
    "comparing": "the draws are kept, no table was written, and the same command compares again",
    "summarising": "the draws are kept, and the same command reads them again",
}
"""Stage -> what is kept if it is stopped by hand; what draws says it with numbers."""
EVERY = 5.0
"""Seconds between two lines where stderr is not a terminal."""


def say(message: str) -> None:
    """Print a message on stderr; where that is closed or full, the work goes on."""
    with contextlib.suppress(OSError, ValueError):
        print(message, file=sys.stderr, flush=True)


class Bar:
    """A callable for `progress=`: shows the share done, the speed and the time left."""

    def __init__(self, label: str, kept: str | None = None) -> None:
        self.kept = kept or KEPT.get(label.partition(",")[0], "nothing of it is kept")
        self.label, self.start, self.shown = label, time.monotonic(), 0.0
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
        if isinstance(error, KeyboardInterrupt):
            say(f"stopped while {self.label}: {error.args[0] if error.args else self.kept}")

    def __call__(self, done: int, wanted: int, proposed: int) -> None:
        """Show that `done` of `wanted` are done."""
        now = time.monotonic()
        speed = done / max(now - self.start, 1e-9)
        left = (wanted - done) / speed if speed else 0.0
        state = f"{done:,}/{wanted:,}  {speed:,.0f}/s  {clock(left)} left"
        if self.bar is not None:
            self.bar.update(self.task, total=wanted, completed=done, state=state)
        elif now - self.shown > EVERY or done >= wanted:
            self.shown = now
            say(f"{self.label}: {state}")


def clock(seconds: float) -> str:
    """Return a time as h:mm:ss or m:ss."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Bars:
    """A reporter that shows a bar for each stage."""

    def __init__(self, **kept: str) -> None:
        self.kept = kept

    def say(self, message: str) -> None:
        """Print a message on stderr."""
        say(message)

    def stage(self, label: str) -> Bar:
        """Return the bar of a stage."""
        return Bar(label, self.kept.get(label))
