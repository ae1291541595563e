"""Drawing on this machine: in this process, or in several.

A language model in one process leaves cores idle between its matrix products; several processes
with fewer threads each may draw faster, or be held up by memory. Neither is known before it is
tried, so the first shards are drawn both ways, and the faster way is kept.
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

from quasir.core.optional import offered
from quasir.engines.engine import Failures, Make, Stop, Task, Work, reason_of
from quasir.errors import InputError

__all__ = ["Local"]

WORTH_MEASURING = 4
"""Shards for each process that must be left, or starting processes costs more than it gives."""
LONG = 120.0
"""Seconds that the rest must take in one process: to load their models takes others some ten."""
MOST_PROCESSES = 8
DIED = (
    "the process that worked on it died. Was it out of memory, or started by a script that does "
    "not have its work behind `if __name__ == '__main__':`?"
)
CLEARLY = 1.05
"""Processes take memory each, so they must be this much faster."""


@dataclass(frozen=True)
class Local:
    """The machine at hand.

    Parameters
    ----------
    processes : int, optional
        How many. By default one, which is this; with `measure`, what is found to be faster.
    threads : int, optional
        Of each process; by default the cores are shared out.
    measure : bool
        Draw the first shards both in this process with all its threads and in several with fewer,
        and go on as is faster. For language models on a CPU; a run of a few minutes is not worth
        it, and is drawn in this process.
    tell : callable, optional
        Called with a sentence that says what was chosen, and why.

    Notes
    -----
    Other processes are spawned, so a script that uses them must have its work behind
    ``if __name__ == "__main__":``.
    """

    processes: int | None = None
    threads: int | None = None
    measure: bool = False
    tell: Callable[[str], object] = lambda sentence: None

    def __post_init__(self) -> None:
        for name in ("processes", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}, but must be at least 1.")

    def map(
        self, make: Make, tasks: Sequence[Task], stop: Stop = lambda: None, here: Work | None = None
    ) -> Iterator[tuple[Task, Any]]:
        """Yield each task with its result; see `Engine.map`."""
        left = deque(tasks)
        failures = Failures(offered(make, "what"))
        if (self.processes or 1) > 1:
            yield from self._in_processes(make, left, stop, failures, self.processes or 1)
        elif self.measure:
            yield from self._measured(make, left, stop, failures, here)
        else:
            yield from _in_this(here or make(), left, stop, failures)
        if failures.final is not None:
            raise failures.final

    def _measured(
        self, make: Make, left: deque[Task], stop: Stop, failures: Failures, here: Work | None
    ) -> Iterator[tuple[Task, Any]]:
        work = here or make()
        threads = _torch_threads()
        processes = min(threads, MOST_PROCESSES)
        if processes < 2 or len(left) < WORTH_MEASURING * processes + 1:
            yield from _in_this(work, left, stop, failures)
            return
        first = deque([left.popleft()])
        start = time.perf_counter()
        size = first[0][1]
        yield from _in_this(work, first, stop, failures)
        seconds = time.perf_counter() - start
        if seconds * len(left) < LONG:
            yield from _in_this(work, left, stop, failures)
            return
        if stop() is not None:
            return
        alone = size / seconds
        some = deque(left.popleft() for _ in range(processes))
        speeds: list[float] = []
        each = self.threads or max(threads // processes, 1)
        pool = self._in_processes(make, some, stop, failures, processes, speeds)
        chosen = False
        for done in pool:
            yield done
            if not chosen and len(speeds) == processes:
                chosen = True
                together = sum(speeds)
                faster = together > CLEARLY * alone
                self.tell(
                    f"{processes} processes of {each} threads draw {together:,.0f} a second, one "
                    f"of {threads} threads {alone:,.0f}: going on with "
                    f"{f'{processes} processes' if faster else 'one'}"
                )
                if faster:
                    some.extend(left)
                    left.clear()
        yield from _in_this(work, left, stop, failures)

    def _in_processes(
        self,
        make: Make,
        left: deque[Task],
        stop: Stop,
        failures: Failures,
        processes: int,
        speeds: list[float] | None = None,
    ) -> Iterator[tuple[Task, Any]]:
        threads = self.threads or max((os.cpu_count() or 1) // processes, 1)
        running: dict[Future[tuple[Any, float]], Task] = {}
        # Which of several tasks killed a process is not known: each is tried again, alone.
        suspects: deque[Task] = deque()
        pool = _pool(processes, make, threads)
        try:
            while left or suspects or running:
                alone, broken = bool(suspects), False
                while (suspects or left) and len(running) < (1 if alone else processes):
                    if failures.final is not None or stop() is not None:
                        left.clear()
                        suspects.clear()
                        break
                    task = (suspects or left).popleft()
                    try:
                        running[pool.submit(_do, task)] = task
                    except BrokenProcessPool:
                        # A process died since the last look.
                        broken = True
                        (suspects if alone else left).appendleft(task)
                        break
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    task = running.pop(future)
                    try:
                        result, seconds = future.result()
                    except BrokenProcessPool:
                        broken = True
                        if not alone or failures.add(task, "died", DIED):
                            suspects.append(task)
                        continue
                    except Exception as error:
                        again = failures.add(task, reason_of(error), f"{reason_of(error)}.")
                    else:
                        if speeds is not None:
                            speeds.append(task[1] / seconds)
                        yield task, result
                        continue
                    if again:
                        left.append(task)
                if broken:
                    # All that were under way are lost with the pool; none is skipped.
                    suspects.extend(running.values())
                    running.clear()
                    pool.shutdown(wait=False, cancel_futures=True)
                    pool = _pool(processes, make, threads)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _in_this(
    work: Work, left: deque[Task], stop: Stop, failures: Failures
) -> Iterator[tuple[Task, Any]]:
    """Work in this process, where an error is told at once: it would come again."""
    while left and failures.final is None and stop() is None:
        task = left.popleft()
        yield task, work(task)


def _pool(processes: int, make: Make, threads: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        processes, get_context("spawn"), _begin, (make, threads, os.getpid())
    )


_make: Make | None = None
_work: Work | None = None


def _begin(make: Make, threads: int, parent: int) -> None:
    """Make this process a worker; its models are loaded with its first task."""
    global _make
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends the work, not the keyboard
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = str(threads)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
    _make = make


def _end_with(parent: int) -> None:
    """End this process when its parent is gone, however that ended."""
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


def _torch_threads() -> int:
    import torch

    return int(torch.get_num_threads())
