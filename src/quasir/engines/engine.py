"""What engines share: tasks, the work on them, and what to do when it fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from quasir.errors import WorkFailedError

__all__ = [
    "ATTEMPTS",
    "Engine",
    "Failures",
    "Make",
    "Stop",
    "Task",
    "Work",
    "reason_of",
]

ATTEMPTS = 3
"""A task that fails this often for one reason will not succeed by being tried again."""

Task: TypeAlias = tuple[int, int]
"""The number of a shard and how many draws it has, or a first block and how many blocks."""
Work: TypeAlias = Callable[[Task], Any]
Make: TypeAlias = Callable[[], Work]
"""Makes a worker ready, loading its models; is sent to it, so it can be pickled."""
Stop: TypeAlias = Callable[[], object]


class Engine(Protocol):
    """Has tasks done by workers."""

    def map(
        self, make: Make, tasks: Sequence[Task], stop: Stop = lambda: None, here: Work | None = None
    ) -> Iterator[tuple[Task, Any]]:
        """Yield each task with its result, in any order, each once.

        Parameters
        ----------
        make : callable
            Called once by each worker; returns what does a task.
        tasks : sequence
        stop : callable
            Asked before a task is given out: anything but None ends the work after those in hand.
        here : callable, optional
            Does a task in this process, where the engine works in it.

        Raises
        ------
        WorkFailedError
            Where a task failed three times for the same reason, after those in hand are done.
        """


@dataclass
class Failures:
    """Counts, for each task, how often it failed and why."""

    what: str
    reasons: Counter[tuple[Task, str]] = field(default_factory=Counter)
    final: WorkFailedError | None = None

    def add(self, task: Task, reason: str, told: str) -> bool:
        """Note a failure; return whether the task is worth another attempt."""
        self.reasons[task, reason] += 1
        if self.reasons[task, reason] < ATTEMPTS:
            return True
        if self.final is None:
            self.final = WorkFailedError(
                f"{self.what} {task[0]} failed {ATTEMPTS} times for the same reason, so the work "
                f"was stopped: {told} What else was done is kept. Mend this, and give the same "
                "command again to go on.",
                task[0],
            )
        return False


def reason_of(error: BaseException) -> str:
    """Return an error in a line; two of the same kind and words are the same reason."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'without a message'}"
