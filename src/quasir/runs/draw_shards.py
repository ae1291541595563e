"""Drawing into a store, shard by shard; a stopped run goes on within its last shard."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from quasir.core.progress import Progress, progress_of
from quasir.core.streams import BLOCK, DrawStreams
from quasir.core.types import Part, Proposal, Request, Target, optional_attribute
from quasir.draws.ceiling import RatioBounds, ratio_bounds
from quasir.draws.draw_blocks import RowMaker, cut_warnings, rows_at_once
from quasir.draws.draws import Draws
from quasir.engines import Engine, Local
from quasir.engines.engine import Task, Work
from quasir.errors import StoreError
from quasir.runs.contexts import Entry
from quasir.runs.unfinished import (
    UNFINISHED,
    draw_shard,
    keep_short_shard,
    kept_draws,
    kept_of_each,
)
from quasir.store import Rows, Shard, Store
from quasir.store.control import clear_stop, stop_asked
from quasir.store.locations import Location, location_of
from quasir.store.manifest import Origin, shard_name
from quasir.store.store import CONTEXT, ContextStore, Piece, between, write_shard

if TYPE_CHECKING:
    import pyarrow as pa

CONTEXTS_AT_ONCE = 512
"""Contexts whose targets and proposals are in memory at once; each takes some 40 KB."""
PASSES = 1e-4
"""How far apart two machines may find the log of one ceiling: float32 passes differ by less."""


class Pairs(Protocol):
    """Makes the target and the proposal of each context, as `contexts.Builder` does."""

    def pair(self, entry: Entry) -> tuple[Target, Proposal]:
        """Return the target and the proposal of a context."""

    def release(self, entry: Entry) -> None:
        """Forget what was computed for a context."""


@dataclass(frozen=True)
class Given:
    """A target and a proposal that are there, for a run of one context."""

    target: Target
    proposal: Proposal

    def pair(self, entry: Entry) -> tuple[Target, Proposal]:
        """Return them."""
        return self.target, self.proposal

    def release(self, entry: Entry) -> None:
        """Forget nothing."""

    def __call__(self) -> Given:
        """Return it in another process, to which it was sent."""
        return self


def draw_into(
    store: Store,
    target: Target,
    proposal: Proposal,
    n: int,
    progress: Progress = False,
    engine: Engine | None = None,
) -> int:
    """Draw the shards that a run of n draws from one target still lacks; see `draw_missing`."""
    given = Given(target, proposal)
    only = [Entry.only(store.seed)]
    return draw_missing(store, n, only, given, load=given, progress=progress, engine=engine)


def draw_missing(
    store: Store,
    n: int,
    entries: Sequence[Entry],
    pairs: Pairs,
    *,
    load: Callable[[], Pairs],
    progress: Progress = False,
    engine: Engine | None = None,
) -> int:
    """Draw the shards that a run of n draws, or its rounds so far, lacks; return how many draws.

    `load` makes `pairs` in another process. Draw i depends on the seed and on i only, so it does
    not matter which draws were there before, or which worker makes it. A file `stop` in the run's
    folder ends the drawing between two shards; the manifest then has the reason under `stopped`.
    """
    clear_stop(store.folder)  # of an earlier process, as are temporary files
    parts = store.location.within(UNFINISHED)
    store.location.clean()
    parts.clean()
    if store.manifest.stopped is not None:
        store.change(stopped=None)
        store.write_manifest()
    missing = store.missing(n)
    pieces: Mapping[int, list[Piece]] | None = None
    if isinstance(store, ContextStore):
        pieces = {number: store.pieces[number] for number in missing}
    else:
        pair = pairs.pair(entries[0])
        _keep_or_refuse_ratios(store, *pair)
        for number in store.shards.keys() & set(missing):
            keep_short_shard(store, number, rows_at_once(*pair))
    tasks = [(number, store.draws_in(number, n)) for number in missing]
    report, done, wanted = progress_of(progress, "drawn"), 0, sum(size for _, size in tasks)

    def tell(drawn: int) -> None:
        if done + drawn < wanted:
            report(done + drawn, wanted, done + drawn)

    work = ShardWork(
        load=load,
        entries=entries,
        pieces=pieces,
        shard_size=store.shard_size,
        address=store.location.address,
        origin=store.origin,
    )
    made = (engine or Local()).map(
        work, tasks, lambda: stop_asked(store.folder), work.by(pairs, tell)
    )
    writers, finished, kept, before = _Writers(), list[str](), 0, kept_of_each(store)
    try:
        for (number, size), written in made:
            _see(store.location, number, written.machine)
            store.change(**writers.after(written.machine, written.process))
            listed = store.record(number, written.shard)
            done += size
            report(done, wanted, done)
            # What a worker kept that was lost since was drawn now, too.
            kept += min(written.kept, before.get(number, 0))
            finished += written.parts
            if listed:
                for name in finished:
                    parts.remove(name)
                finished.clear()
    except KeyboardInterrupt as stopped:
        store.settle()
        there = kept_draws(store)
        stopped.args = (f"{there:,} draws are kept in {store.folder}; the same command goes on",)
        raise
    finally:
        store.settle()
    if not store.missing(n):
        parts.drop()
        store.location.clean()  # of what workers that were killed have left
    elif (why := stop_asked(store.folder)) is not None:
        store.change(stopped=why)
        store.write_manifest()
    clear_stop(store.folder)
    return done - kept


class _Writers:
    """Workers among the last 4W writers of a shard, W being the number of workers."""

    def __init__(self) -> None:
        self.shards, self.last = 0, dict[tuple[str, int], int]()

    def after(self, machine: str, process: int) -> dict[str, int]:
        """Count a shard of a worker; return how many workers and machines there are."""
        self.shards += 1
        self.last[machine, process] = self.shards
        gone = self.shards - 4 * len(self.last)
        self.last = {worker: at for worker, at in self.last.items() if at > gone}
        return {"workers": len(self.last), "machines": len({name for name, _ in self.last})}


def _see(location: Location, number: int, machine: str) -> None:
    """Refuse a shard that its worker wrote to a place this process cannot read."""
    try:
        location.identity(shard_name(number))
    except OSError as error:
        raise StoreError(
            f"{shard_name(number)} was written by a worker on {machine} to "
            f"{location.address}, but this process does not see it there: the machines do not "
            "share that folder. Give a folder that they share, or an address such as "
            "s3://bucket/run with --shards-at."
        ) from error


def _keep_or_refuse_ratios(store: Store, target: Target, proposal: Proposal) -> None:
    """Record what is known about the ratios; refuse draws of which the record is not true."""
    now = ratio_bounds(target, proposal)
    if store.manifest.known is None:
        store.change(known=now.to_dict(), warnings=cut_warnings(target, proposal))
        store.write_manifest()
    before = RatioBounds.from_dict(store.manifest.known)
    other_z = before.log_z is not None and before.log_z != now.log_z
    if other_z or before.log_ceiling < now.log_ceiling - PASSES:
        raise StoreError(
            f"{store.folder} was begun with another target or proposal. It says: {before.basis} "
            f"Of what would be drawn now: {now.basis} Its guarantees would not hold: draw into "
            "another folder."
        )


@dataclass(frozen=True)
class Written:
    """A shard that a worker has written, and what the manifest records about it."""

    shard: Shard
    machine: str
    process: int
    kept: int  # draws of it that an earlier process had kept
    parts: list[str]


@dataclass(frozen=True, kw_only=True)
class ShardWork:
    """The work that is sent to a worker of an engine: it draws shards and writes them."""

    load: Callable[[], Pairs]
    entries: Sequence[Entry]
    pieces: Mapping[int, list[Piece]] | None  # of each shard of a run over contexts
    shard_size: int
    address: str
    origin: Origin

    what = "shard"

    def __call__(self) -> Work:
        """Load the models; return a function that draws and writes a shard."""
        return self.by(self.load())

    def by(self, pairs: Pairs, tell: Callable[[int], None] = lambda drawn: None) -> Work:
        """Return a function that draws a shard and writes it, whole or not at all."""
        location = location_of(self.address)

        def work(task: Task) -> Written:
            start, (number, size) = time.perf_counter(), task
            first = 0 if self.pieces is None else self.pieces[number][0].context
            at_once = rows_at_once(*pairs.pair(self.entries[first]))
            if self.pieces is None:
                make = self._successive(pairs, task)
            else:
                make = self._mixed(pairs, self.pieces[number])
            table, kept, parts = draw_shard(make, task, location, self.origin, at_once, tell)
            shard = write_shard(location, number, table, self.origin)
            if kept < size:  # draws that were kept took their time in another process
                seconds = (time.perf_counter() - start) * size / (size - kept)
                shard = replace(shard, seconds=seconds)
            return Written(shard, socket.gethostname(), os.getpid(), kept, parts)

        return work

    def _successive(self, pairs: Pairs, task: Task) -> Callable[[int, int], pa.Table]:
        """Return what makes rows of a shard whose draws follow each other."""
        from quasir.store.shard_format import table_of

        (entry,) = self.entries
        first = task[0] * self.shard_size
        rows = RowMaker(*pairs.pair(entry), DrawStreams(entry.seed), first + task[1])
        return lambda start, stop: table_of(rows(first + start, first + stop).rows, first + start)

    def _mixed(self, pairs: Pairs, pieces: list[Piece]) -> Callable[[int, int], pa.Table]:
        """Return what makes rows of a shard that holds pieces of contexts."""
        from quasir.store.shard_format import joined, table_of

        def make(start: int, stop: int) -> pa.Table:
            some, tables = between(pieces, start, stop), []
            for i in range(0, len(some), CONTEXTS_AT_ONCE):
                group = some[i : i + CONTEXTS_AT_ONCE]
                draws = draw_together(pairs, self.entries, group, check=start == 0 and i == 0)
                rows = Draws.concatenate(draws).rows
                sizes = [piece.stop - piece.start for piece in group]
                context = np.repeat([piece.context for piece in group], sizes)
                index = np.concatenate([np.arange(piece.start, piece.stop) for piece in group])
                named = {CONTEXT: context.astype(np.int64), "index": index.astype(np.int64)}
                tables.append(table_of(Rows(named | rows.columns, rows.items), 0))
                for piece in group:
                    pairs.release(self.entries[piece.context])
            return joined(tables)

        return make


class Stretch(NamedTuple):
    """Rows of one block of a context."""

    entry: Entry
    block: int
    start: int
    stop: int


def draw_together(
    pairs: Pairs, entries: Sequence[Entry], pieces: Sequence[Piece], check: bool = True
) -> list[Draws]:
    """Return the draws of some pieces, by their blocks."""
    stretches = [
        Stretch(entries[i], block, max(start - block * BLOCK, 0), min(stop - block * BLOCK, BLOCK))
        for i, start, stop in pieces
        for block in range(start // BLOCK, -(-stop // BLOCK))
    ]
    made = {s.entry.index: pairs.pair(s.entry) for s in stretches}
    every = [made[s.entry.index] for s in stretches]
    streams = [DrawStreams(s.entry.seed) for s in stretches]
    together = optional_attribute(every[0][1], "sample_together")
    found: Sequence[Part | None] | None = None
    if together is not None:
        requests = [
            Request(stream.propose(s.block), s.start, s.stop)
            for s, stream in zip(stretches, streams, strict=True)
        ]
        found = together([proposal for _, proposal in every], requests)
    return [
        RowMaker(*pair, stream, s.block * BLOCK + s.stop).rows(
            s.block, s.start, s.stop, check and s is stretches[0], part
        )
        for pair, stream, s, part in zip(
            every, streams, stretches, found or [None] * len(stretches), strict=True
        )
    ]
