"""The parts that all engines share: tasks, the count of failures, and workers that do tasks."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from quasir.errors import WorkFailedError

ATTEMPTS = 3  # a task that fails this many times for one reason is not tried again
PATIENCE = 60.0  # seconds without a single worker after which the user is informed

Task: TypeAlias = tuple[int, int]  # a (shard, draws) or (first block, blocks) pair
Work: TypeAlias = Callable[[Task], Any]
Make: TypeAlias = Callable[[], Work]
"""Loads the models of a worker and returns its work; it is sent there, so it must be picklable."""
Stop: TypeAlias = Callable[[], object]  # returns None, or a reason to stop


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


class Worker(Protocol):
    """A process or an actor."""

    def submit(self, task: Task | None) -> Future[Any]:
        """Begin a task, or the loading of the models where it is None."""

    def kill(self) -> None:
        """End it at once."""


@dataclass(kw_only=True)
class Crew:
    """Workers that do the tasks in `left`, to which the caller may add more."""

    start: Callable[[], Worker]
    size: int
    left: deque[Task]
    failures: Failures
    died: type[BaseException]  # what the future of a worker that has died raises
    why: str  # says that it has died
    tell: Callable[[str], object]
    speeds: list[float] = field(default_factory=list)  # of each task that is done
    idle: list[Worker] = field(default_factory=list)
    # The workers that load their models (for no task), or do one, since when.
    busy: dict[Future[Any], tuple[Worker, Task | None, float]] = field(default_factory=dict)

    def work(self, stop: Stop, no_room: Callable[[], str] = str) -> Iterator[tuple[Task, Any]]:
        """Yield each task with its result; tell `no_room()` if no worker starts for a minute."""
        waited = 0.0
        try:
            while self.left or self._under_way():
                while self.left and self.idle:
                    self._begin(self.idle.pop(), self.left.popleft())
                while len(self.busy) < min(self.size, len(self.left) + self._under_way()):
                    self._begin(self.start(), None)
                done, _ = wait(self.busy, timeout=1.0, return_when=FIRST_COMPLETED)
                waited = 0.0 if done or self._under_way() else waited + 1.0
                if waited == PATIENCE:
                    self.tell(no_room())
                for future in done:
                    yield from self._take(future)
                if self.left and (self.failures.final is not None or stop() is not None):
                    self.left.clear()
        finally:
            for worker in (*self.idle, *(worker for worker, _, _ in self.busy.values())):
                worker.kill()

    def _under_way(self) -> int:
        return sum(task is not None for _, task, _ in self.busy.values())

    def _begin(self, worker: Worker, task: Task | None) -> None:
        self.busy[worker.submit(task)] = worker, task, time.perf_counter()

    def _take(self, future: Future[Any]) -> Iterator[tuple[Task, Any]]:
        """Yield a finished task with its result; after a failure, put the task back instead."""
        worker, task, since = self.busy.pop(future)
        error = future.exception()
        if error is None:
            self.idle.append(worker)
            if task is not None:
                self.speeds.append(task[1] / max(time.perf_counter() - since, 1e-9))
                yield task, future.result()
            return
        cause = getattr(error, "cause", None)
        if isinstance(error, self.died):
            self.tell(f"a worker was lost: {reason_of(error)}")
            reason, said = "died", f"{self.why} {reason_of(cause) if cause else ''}".strip()
        else:
            reason = reason_of(cause or error)
            said = f"{reason}."
        if task is not None and reason != "died":
            self.idle.append(worker)
        else:
            worker.kill()
        # A worker that fails before its first task counts as a failure of the next task.
        against = task or (self.left[0] if self.left else None)
        if against is not None and self.failures.add(against, reason, said) and task is not None:
            self.left.appendleft(task)


def reason_of(error: BaseException) -> str:
    """Return an error as one line; errors with the same line have the same reason."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'without a message'}"


def silent(sentence: str) -> None:
    """Tell nobody."""
