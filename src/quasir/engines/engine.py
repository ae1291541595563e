"""The parts that all engines share: tasks, the work on them, and the count of failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from quasir.errors import WorkFailedError

ATTEMPTS = 3
"""A task that fails this many times for one reason is not tried again."""

Task: TypeAlias = tuple[int, int]
"""A (shard, draws) or (first block, blocks) pair."""
Work: TypeAlias = Callable[[Task], Any]
Make: TypeAlias = Callable[[], Work]
"""Loads the models of a worker and returns its work; it is sent there, so it must be picklable."""
Stop: TypeAlias = Callable[[], object]
"""Returns None, or a reason to stop."""


class Engine(Protocol):
    """Gives tasks to workers.

    Examples
    --------
    >>> import quasir as qr
    >>> engine: Engine = qr.engines.Local()
    >>> list(engine.map(lambda: lambda task: 2 * task, [1, 2, 3]))
    [(1, 2), (2, 4), (3, 6)]
    """

    def map(
        self, make: Make, tasks: Sequence[Task], stop: Stop = lambda: None, here: Work | None = None
    ) -> Iterator[tuple[Task, Any]]:
        """Yield each task with its result, in any order, each once.

        Each worker calls `make` once; it returns the function that does a task, and `here` is that
        function for an engine that works in this process. `stop` is called before each task is
        given out: if it does not return None, no further task is, and those under way are finished.
        So they are before a `WorkFailedError`, if a task failed three times for the same reason.
        """


@dataclass
class Failures:
    """Counts the failures of each task, by their reasons."""

    what: str
    reasons: Counter[tuple[Task, str]] = field(default_factory=Counter)
    final: WorkFailedError | None = None

    def add(self, task: Task, reason: str, explanation: str) -> bool:
        """Count a failure; return whether to try the task again."""
        self.reasons[task, reason] += 1
        if self.reasons[task, reason] < ATTEMPTS:
            return True
        if self.final is None:
            self.final = WorkFailedError(
                f"{self.what} {task[0]} failed {ATTEMPTS} times for the same reason, so the work "
                f"was stopped: {explanation} The results of other tasks are kept. Correct this, "
                "and give the same command again to continue.",
                task[0],
            )
        return False


def reason_of(error: BaseException) -> str:
    """Return an error as one line; errors with the same line have the same reason."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'without a message'}"


def silent(sentence: str) -> None:
    """Tell nobody."""
