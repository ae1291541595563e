"""Drawing into memory by an engine: ``qr.draw(engine=...)``."""

from __future__ import annotations

from dataclasses import dataclass

from quasir.core.progress import Report
from quasir.core.streams import BLOCK, DrawStreams
from quasir.core.types import Proposal, Target
from quasir.draws.draw_blocks import AT_ONCE, draw_blocks
from quasir.draws.draws import Draws
from quasir.engines.engine import Engine, Task, Work

__all__ = ["BlockWork", "draw_by"]


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
