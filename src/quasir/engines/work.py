"""What engines share: tasks, the work on them, and what to do when it fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from quasir.drawing import AT_ONCE, draw_blocks
from quasir.draws import Draws
from quasir.errors import WorkFailed
from quasir.progress import Report
from quasir.streams import BLOCK, DrawStreams
from quasir.typing import Proposal, Target

__all__ = [
    "ATTEMPTS",
    "BlockWork",
    "Engine",
    "Failures",
    "Make",
    "Stop",
    "Task",
    "Work",
    "draw_by",
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
        WorkFailed
            Where a task failed three times for the same reason, after those in hand are done.
        """


@dataclass
class Failures:
    """Counts, for each task, how often it failed and why."""

    what: str
    reasons: Counter[tuple[Task, str]] = field(default_factory=Counter)
    final: WorkFailed | None = None

    def add(self, task: Task, reason: str, told: str) -> bool:
        """Note a failure; return whether the task is worth another attempt."""
        self.reasons[task, reason] += 1
        if self.reasons[task, reason] < ATTEMPTS:
            return True
        if self.final is None:
            self.final = WorkFailed(
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


@dataclass(frozen=True)
class BlockWork:
    """Draws blocks into memory: the work behind ``qr.draw(engine=...)``."""

    target: Target
    proposal: Proposal
    streams: DrawStreams
    n: int
    batch_size: int | None

    what = "the piece from block"

    def __call__(self) -> Work:
        """Return what draws a piece; the models have come with the worker."""

        def work(task: Task) -> Draws:
            first, blocks = task
            return draw_blocks(
                self.target, self.proposal, self.streams, first, blocks, self.n, self.batch_size
            )

        return work


def draw_by(
    engine: Engine,
    target: Target,
    proposal: Proposal,
    n: int,
    streams: DrawStreams,
    batch_size: int | None,
    report: Report,
) -> Draws:
    """Have an engine draw pieces into memory, and join them in their order."""
    # A piece is small enough that each of a few workers has several.
    blocks = -(-n // BLOCK)
    size = max(1, min(AT_ONCE, blocks // 32))
    tasks = [(first, min(size, blocks - first)) for first in range(0, blocks, size)]
    work, parts, done = BlockWork(target, proposal, streams, n, batch_size), {}, 0
    for (first, _), part in engine.map(work, tasks):
        parts[first] = part
        done += len(part)
        report(done, n, done)
    return Draws.concatenate([parts[first] for first, _ in tasks])
