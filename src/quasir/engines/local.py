"""Drawing on this machine: in this process, or in several.

A language model in one process leaves cores idle between its matrix products. Several processes
with fewer threads each may draw faster, or may be slowed down by memory. Only a test can tell, so
the first shards are drawn both ways, and the faster way is kept.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from quasir.core.arguments import check_bool, check_callable, check_optional_count
from quasir.core.types import optional_attribute
from quasir.engines.engine import Failures, Make, Stop, Task, Work, reason_of, silent

WORTH_MEASURING = 4  # shards for each process; with fewer, starting processes costs too much
LONG = 120.0  # seconds of work left in one process; others need about 10 to load models
MOST_PROCESSES = 8
MOST_WORKERS = 10_000  # largest number of processes or threads that can be asked for
DIED = (
    "the process that worked on it died. Was it out of memory, or was it started by a script "
    "without `if __name__ == '__main__':` before its work?"
)
CLEARLY = 1.05
"""Several processes must be this much faster, since each takes memory."""


@dataclass(frozen=True)
class Local:
    """The machine that this process runs on.

    Parameters
    ----------
    processes : int, optional
        Number of processes. By default one, which is this process; with `measure`, the faster
        choice.
    threads : int, optional
        Threads of each process; by default the cores are divided among the processes.
    measure : bool
        Draw the first shards both in this process with all its threads and in several with fewer,
        and continue the faster way. This is for language models on a CPU. A run of a few minutes
        is not measured, and is drawn in this process.
    tell : callable, optional
        Called with a sentence that gives the choice and the reason.

    Notes
    -----
    Other processes are spawned, so a script that uses them must do its work under
    ``if __name__ == "__main__":``.

    Examples
    --------
    >>> import quasir as qr
    >>> from scipy import stats
    >>> p, q = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))
    >>> draws = qr.draw(p, q, 1_000, seed=0, engine=qr.engines.Local(processes=1))
    >>> len(draws)
    1000
    """

    processes: int | None = None
    threads: int | None = None
    measure: bool = False
    tell: Callable[[str], object] = silent

    def __post_init__(self) -> None:
        for name in ("processes", "threads"):
            check_optional_count(name, getattr(self, name), most=MOST_WORKERS)
        check_bool("measure", self.measure)
        check_callable("tell", self.tell, "a function that takes a sentence")

    def map(
        self, make: Make, tasks: Sequence[Task], stop: Stop = lambda: None, here: Work | None = None
    ) -> Iterator[tuple[Task, Any]]:
        """Yield each task with its result; see `Engine.map`."""
        left = deque(tasks)
        failures = Failures(optional_attribute(make, "what"))
        if (self.processes or 1) > 1:
            yield from self._crew(make, left, failures, self.processes or 1).work(stop)
        elif self.measure:
            yield from self._measured(make, left, stop, failures, here)
        else:
            yield from _in_this(here or make(), left, stop, failures)
        if failures.final is not None:
            raise failures.final

    def _measured(
        self, make: Make, left: deque[Task], stop: Stop, failures: Failures, here: Work | None
    ) -> Iterator[tuple[Task, Any]]:
        import torch

        work, threads = here or make(), int(torch.get_num_threads())
        processes = min(threads, MOST_PROCESSES)
        if processes < 2 or len(left) < WORTH_MEASURING * processes + 1:
            yield from _in_this(work, left, stop, failures)
            return
        first, start = deque([left.popleft()]), time.perf_counter()
        alone = float(first[0][1])
        yield from _in_this(work, first, stop, failures)
        seconds = time.perf_counter() - start
        if seconds * len(left) < LONG or stop() is not None:
            yield from _in_this(work, left, stop, failures)
            return
        alone /= seconds
        some = deque(left.popleft() for _ in range(processes))
        crew = self._crew(make, some, failures, processes)
        chosen = False
        for done in crew.work(stop):
            yield done
            if not chosen and len(crew.speeds) == processes:
                chosen = True
                together = sum(crew.speeds)
                faster = together > CLEARLY * alone
                self.tell(
                    f"{processes} processes of {crew.threads} threads draw {together:,.0f} a "
                    f"second, one of {threads} threads draws {alone:,.0f}: going on with "
                    f"{f'{processes} processes' if faster else 'one'}"
                )
                if faster:
                    some.extend(left)
                    left.clear()
        yield from _in_this(work, left, stop, failures)

    def _crew(
        self, make: Make, left: deque[Task], failures: Failures, processes: int
    ) -> _ProcessCrew:
        threads = self.threads or max((os.cpu_count() or 1) // processes, 1)
        return _ProcessCrew(make, left, failures, processes=processes, threads=threads)


class _ProcessCrew:
    """Processes that work on the tasks in `left`, to which the caller may add more."""

    def __init__(
        self, make: Make, left: deque[Task], failures: Failures, *, processes: int, threads: int
    ) -> None:
        self.make, self.left, self.failures = make, left, failures
        self.processes, self.threads = processes, threads
        self.speeds: list[float] = []
        self.running: dict[Future[tuple[Any, float]], Task] = {}
        # It is unknown which of several tasks killed a process: each is tried again, alone.
        self.suspects: deque[Task] = deque()
        self.broken = False
        self.pool = self._pool()

    def work(self, stop: Stop) -> Iterator[tuple[Task, Any]]:
        """Yield each task with its result."""
        try:
            while self.left or self.suspects or self.running:
                alone = bool(self.suspects)
                self._submit(stop, alone)
                done, _ = wait(self.running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield from self._take(future, alone)
                if self.broken:
                    # The tasks that were lost with the old pool are tried again, in a new one.
                    self.suspects.extend(self.running.values())
                    self.running.clear()
                    self.pool.shutdown(wait=False, cancel_futures=True)
                    self.pool, self.broken = self._pool(), False
        finally:
            if self.running:
                # The caller was stopped: Python would wait until the tasks under way are done.
                for process in list((self.pool._processes or {}).values()):
                    process.kill()
            self.pool.shutdown(wait=False, cancel_futures=True)

    def _submit(self, stop: Stop, alone: bool) -> None:
        """Give tasks to idle processes, or one suspect to one process."""
        while (self.suspects or self.left) and len(self.running) < (1 if alone else self.processes):
            if self.failures.final is not None or stop() is not None:
                self.left.clear()
                self.suspects.clear()
                return
            task = (self.suspects or self.left).popleft()
            try:
                self.running[self.pool.submit(_do, task)] = task
            except BrokenProcessPool:
                # A process has died since the last check.
                self.broken = True
                (self.suspects if alone else self.left).appendleft(task)
                return

    def _take(self, future: Future[tuple[Any, float]], alone: bool) -> Iterator[tuple[Task, Any]]:
        """Yield a finished task with its result; after a failure, put the task back instead."""
        task = self.running.pop(future)
        try:
            result, seconds = future.result()
        except BrokenProcessPool:
            self.broken = True
            if not alone or self.failures.add(task, "died", DIED):
                self.suspects.append(task)
        except Exception as error:
            if self.failures.add(task, reason_of(error), f"{reason_of(error)}."):
                self.left.append(task)
        else:
            self.speeds.append(task[1] / max(seconds, 1e-9))
            yield task, result

    def _pool(self) -> ProcessPoolExecutor:
        given = (self.make, self.threads, os.getpid())
        return ProcessPoolExecutor(self.processes, get_context("spawn"), _begin, given)


def _in_this(
    work: Work, left: deque[Task], stop: Stop, failures: Failures
) -> Iterator[tuple[Task, Any]]:
    """Work in this process. An error is raised at once: another attempt would fail again."""
    while left and failures.final is None and stop() is None:
        task = left.popleft()
        yield task, work(task)


_make: Make | None = None
_work: Work | None = None


def _begin(make: Make, threads: int, parent: int) -> None:
    """Make this process a worker; its models are loaded for its first task."""
    global _make
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends the work
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = str(threads)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
    _make = make


def _end_with(parent: int) -> None:
    """End this process when its parent has ended in any way."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _do(task: Task) -> tuple[Any, float]:
    global _work
    if _work is None:
        assert _make is not None
        _work = _make()
    start = time.perf_counter()
    return _work(task), time.perf_counter() - start
