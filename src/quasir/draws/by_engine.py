"""Drawing into memory with an engine: ``qr.draw(engine=...)``."""

from __future__ import annotations

from dataclasses import dataclass

from quasir.core.arguments import show
from quasir.core.progress import Report
from quasir.core.streams import BLOCK, DrawStreams
from quasir.core.types import Proposal, Target
from quasir.draws.draw_blocks import AT_ONCE, draw_blocks
from quasir.draws.draws import Draws
from quasir.engines.engine import Engine, Task, Work
from quasir.errors import InputError

__all__ = ["draw_by"]


@dataclass(frozen=True, kw_only=True)
class BlockWork:
    """Draws blocks into memory: the work behind ``qr.draw(engine=...)``."""

    target: Target
    proposal: Proposal
    streams: DrawStreams
    n: int
    batch_size: int | None

    what = "the piece from block"

    def __call__(self) -> Work:
        """Return the function that draws a piece; the models were pickled with this object."""

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
    """Draw pieces with an engine, and join them in their order."""
    if isinstance(engine, type) or not callable(getattr(engine, "map", None)):
        raise InputError(
            f"engine is {show(engine)}, but must be an engine of quasir.engines, such as "
            "qr.engines.Local(processes=2)."
        )
    # Pieces are small, so that each of a few workers gets several.
    blocks = -(-n // BLOCK)
    size = max(1, min(AT_ONCE, blocks // 32))
    tasks = [(first, min(size, blocks - first)) for first in range(0, blocks, size)]
    work = BlockWork(target=target, proposal=proposal, streams=streams, n=n, batch_size=batch_size)
    parts, done = {}, 0
    for (first, _), part in engine.map(work, tasks):
        parts[first] = part
        done += len(part)
        report(done, n, done)
    return Draws.concatenate([parts[first] for first, _ in tasks])
