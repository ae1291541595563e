"""Drawing into a store, shard by shard; a stopped run resumes after its last shard."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from quasir.core.progress import Progress, progress_of
from quasir.core.streams import BLOCK, DrawStreams
from quasir.core.types import Proposal, Target
from quasir.draws.ceiling import known_of
from quasir.draws.draw_blocks import draw_pieces
from quasir.draws.draws import Draws
from quasir.engines.engine import Engine, Task, Work
from quasir.runs.shard_work import Tally, Written, begin_drawing, carry_out, recorded
from quasir.store import Store
from quasir.store.locations import Location, location_of
from quasir.store.origin import Origin

__all__ = ["draw_into", "draw_shard"]

Parts = Callable[[], tuple[Target, Proposal]]
"""Loads the target and the proposal, in the process that calls it."""


def draw_into(
    store: Store,
    target: Target,
    proposal: Proposal,
    n: int,
    progress: Progress = False,
    engine: Engine | None = None,
    parts: Parts | None = None,
) -> int:
    """Draw the shards that a run of n draws still lacks; return how many draws were made.

    Draw i depends on the store's seed and on i only, so it does not matter which draws were there
    before, or which worker makes it. A file `stop` in the run's folder ends the drawing between
    two shards; the manifest then has the reason under `stopped`.

    Parameters
    ----------
    store : Store
    target, proposal
        As in `qr.draw`.
    n : int
        Draws in all.
    progress : bool or callable
    engine : Engine, optional
        What draws; by default this process.
    parts : callable, optional
        Loads target and proposal in a worker of the engine; by default they are sent to it.
    """
    begin_drawing(store)
    if store.manifest.known is None:
        store.change(known=known_of(target, proposal).to_dict())
        store.write_manifest()
    missing = store.missing(n)
    tasks = [(number, store.draws_in(number, n)) for number in missing]
    tally = Tally(sum(size for _, size in tasks), progress_of(progress, "drawn"))
    here = _here(store, target, proposal, tally)
    work = ShardWork(
        parts=parts or partial(_given, target, proposal),
        streams=store.streams,
        blocks_a_shard=store.blocks_a_shard,
        address=store.location.address,
        origin=store.origin,
    )
    return carry_out(store, tasks, work, here, tally, engine, lambda: bool(store.missing(n)))


def _here(store: Store, target: Target, proposal: Proposal, tally: Tally) -> Work:
    def work(task: Task) -> Written:
        return _write_drawn(
            task,
            target=target,
            proposal=proposal,
            streams=store.streams,
            blocks_a_shard=store.blocks_a_shard,
            location=store.location,
            origin=store.origin,
            tell=tally.within,
        )

    return work


@dataclass(frozen=True, kw_only=True)
class ShardWork:
    """The work that is sent to a worker of an engine: it draws shards and writes them."""

    parts: Parts
    streams: DrawStreams
    blocks_a_shard: int
    address: str
    origin: Origin

    what = "shard"

    def __call__(self) -> Work:
        """Load the models; return a function that draws and writes a shard."""
        target, proposal = self.parts()
        location = location_of(self.address)

        def work(task: Task) -> Written:
            return _write_drawn(
                task,
                target=target,
                proposal=proposal,
                streams=self.streams,
                blocks_a_shard=self.blocks_a_shard,
                location=location,
                origin=self.origin,
            )

        return work


def _given(target: Target, proposal: Proposal) -> tuple[Target, Proposal]:
    return target, proposal


def _write_drawn(
    task: Task,
    *,
    target: Target,
    proposal: Proposal,
    streams: DrawStreams,
    blocks_a_shard: int,
    location: Location,
    origin: Origin,
    tell: Callable[[int], None] = lambda drawn: None,
) -> Written:
    """Draw a shard and write it, whole or not at all."""
    number, size = task
    start = time.perf_counter()
    draws = draw_shard(
        target,
        proposal,
        streams=streams,
        blocks_a_shard=blocks_a_shard,
        number=number,
        size=size,
        tell=tell,
    )
    first = number * blocks_a_shard * BLOCK
    return recorded(location, number, draws.rows, first, origin, draws.doubts, start)


def draw_shard(
    target: Target,
    proposal: Proposal,
    *,
    streams: DrawStreams,
    blocks_a_shard: int,
    number: int,
    size: int,
    tell: Callable[[int], None] = lambda drawn: None,
) -> Draws:
    """Make the first `size` draws of a shard; after each piece, call `tell` with their number."""
    first, parts, drawn = number * blocks_a_shard, [], 0
    for piece in draw_pieces(target, proposal, streams, block=first, stop=first * BLOCK + size):
        parts.append(piece)
        drawn += len(piece)
        tell(drawn)
    return Draws.concatenate(parts)
