"""Drawing on this machine: in this process, or in several."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from quasir.core.arguments import check_bool, check_callable, check_optional_count
from quasir.core.types import optional_attribute
from quasir.engines.engine import Crew, Failures, Make, Stop, Task, Work, silent

WORTH_MEASURING = 4  # shards for each process; with fewer, starting processes costs too much
LONG = 120.0  # seconds of work left in one process; others need about 10 to load models
MOST_PROCESSES = 8
MOST_WORKERS = 10_000  # largest number of processes or threads that can be asked for
DIED = (
    "the process that worked on it died. Was it out of memory, or was it started by a script "
    "without `if __name__ == '__main__':` before its work?"
)
CLEARLY = 1.05  # several processes must be this much faster, since each takes memory


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
                    f"{processes} processes of {self._threads(processes)} threads draw "
                    f"{together:,.0f} a second, one of {threads} threads draws {alone:,.0f}: going "
                    f"on with {f'{processes} processes' if faster else 'one'}"
                )
                if faster:
                    some.extend(left)
                    left.clear()
        yield from _in_this(work, left, stop, failures)

    def _threads(self, processes: int) -> int:
        return self.threads or max((os.cpu_count() or 1) // processes, 1)

    def _crew(self, make: Make, left: deque[Task], failures: Failures, size: int) -> Crew:
        return Crew(
            start=lambda: _Process(make, self._threads(size)),
            size=size,
            left=left,
            failures=failures,
            died=BrokenProcessPool,
            why=DIED,
            tell=self.tell,
        )


class _Process:
    """A worker of its own process, so that it is known which task it died of."""

    def __init__(self, make: Make, threads: int) -> None:
        given = (make, threads, os.getpid())
        self.pool = ProcessPoolExecutor(1, get_context("spawn"), _begin, given)

    def submit(self, task: Task | None) -> Future[Any]:
        try:
            return self.pool.submit(_do, task)
        except BrokenProcessPool as error:  # it has died since its last task
            failed = Future[Any]()
            failed.set_exception(error)
            return failed

    def kill(self) -> None:
        # If it were busy, Python would wait until its task is done.
        for process in list((self.pool._processes or {}).values()):
            process.kill()
        self.pool.shutdown(wait=False, cancel_futures=True)


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


def _do(task: Task | None) -> Any:
    """Do a task; load the models before the first one, and where there is none."""
    global _work
    if _work is None:
        assert _make is not None
        _work = _make()
    return None if task is None else _work(task)
