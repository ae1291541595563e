"""Drawing into a store, shard by shard; a stopped run resumes after its last shard."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from quasir.core.progress import Progress, Report, progress_of
from quasir.core.streams import BLOCK, DrawStreams
from quasir.core.types import Proposal, Target
from quasir.draws.ceiling import known_of
from quasir.draws.draw_blocks import draw_pieces
from quasir.draws.draws import Draws
from quasir.engines.engine import Engine, Task, Work
from quasir.errors import StoreError
from quasir.store import Shard, Store
from quasir.store.control import clear_stop, stop_asked
from quasir.store.locations import Location, location_of
from quasir.store.manifest import shard_name
from quasir.store.origin import Origin
from quasir.store.store import write_shard

__all__ = ["draw_into", "draw_shard"]

Parts = Callable[[], tuple[Target, Proposal]]
"""Loads the target and the proposal, in the process that calls it."""


@dataclass(frozen=True, kw_only=True)
class Written:
    """A shard that a worker has written, and what the manifest records about it."""

    shard: Shard
    doubts: tuple[str, ...]
    machine: str
    process: int


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
    clear_stop(store.folder)
    store.location.clean()
    if store.manifest.stopped is not None:
        store.change(stopped=None)
        store.write_manifest()
    if store.manifest.known is None:
        store.change(known=known_of(target, proposal).to_dict())
        store.write_manifest()
    missing = store.missing(n)
    tasks = [(number, store.draws_in(number, n)) for number in missing]
    wanted = sum(size for _, size in tasks)
    tally = _Tally(wanted, progress_of(progress, "drawn"))
    here = _here(store, target, proposal, tally)
    if engine is None:
        done = _in_this_process(store, tasks, here)
    else:
        work = ShardWork(
            parts=parts or partial(_given, target, proposal),
            streams=store.streams,
            blocks_a_shard=store.blocks_a_shard,
            address=store.location.address,
            origin=store.origin,
        )
        done = engine.map(work, tasks, lambda: stop_asked(store.folder), here)
    workers = _Workers()
    try:
        for (number, size), written in done:
            _see(store.location, number, written)
            store.change(**workers.after(written.machine, written.process))
            if not store.shards:
                store.change(doubts=written.doubts)
            store.record(number, written.shard)
            tally.finish(size)
    finally:
        store.settle()
    why = stop_asked(store.folder)
    if why is not None and store.missing(n):
        store.change(stopped=why)
        store.write_manifest()
    clear_stop(store.folder)
    return tally.done


class _Workers:
    """Workers among the last 4W shard writers, W being the number of workers."""

    def __init__(self) -> None:
        self.shards = 0
        self.last: dict[tuple[str, int], int] = {}

    def after(self, machine: str, process: int) -> dict[str, int]:
        """Count a shard of a worker; return how many workers and machines there are."""
        self.shards += 1
        self.last[machine, process] = self.shards
        gone = self.shards - 4 * len(self.last)
        self.last = {worker: at for worker, at in self.last.items() if at > gone}
        return {"workers": len(self.last), "machines": len({name for name, _ in self.last})}


class _Tally:
    """How many draws are made, for the progress report."""

    def __init__(self, wanted: int, report: Report) -> None:
        self.done, self.wanted, self.report = 0, wanted, report

    def within(self, drawn: int) -> None:
        """Report a shard that has `drawn` draws so far."""
        if self.done + drawn < self.wanted:
            self.report(self.done + drawn, self.wanted, self.done + drawn)

    def finish(self, size: int) -> None:
        """Report a shard that is written."""
        self.done += size
        self.report(self.done, self.wanted, self.done)


def _in_this_process(store: Store, tasks: list[Task], work: Work) -> Iterator[tuple[Task, Written]]:
    for task in tasks:
        if stop_asked(store.folder) is not None:
            return
        yield task, work(task)


def _here(store: Store, target: Target, proposal: Proposal, tally: _Tally) -> Work:
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
    sha256 = write_shard(location, number, draws.rows, number * blocks_a_shard * BLOCK, origin)
    seconds = time.perf_counter() - start
    return Written(
        shard=Shard(len(draws), sha256, seconds, location.identity(shard_name(number))),
        doubts=draws.doubts,
        machine=socket.gethostname(),
        process=os.getpid(),
    )


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


def _see(location: Location, number: int, written: Written) -> None:
    """Refuse a shard that its worker wrote to a place this process cannot read."""
    try:
        location.identity(shard_name(number))
    except OSError as error:
        raise StoreError(
            f"{shard_name(number)} was written by a worker on {written.machine} to "
            f"{location.address}, but this process does not see it there: the machines do not "
            "share that folder. Give a folder that they share, or an address such as "
            "s3://bucket/run with --shards-at."
        ) from error
