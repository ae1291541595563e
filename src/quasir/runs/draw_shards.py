"""Drawing into a store, shard by shard; what is drawn of a shard under way is kept in parts.

A stopped run goes on there. A shard of a run over contexts holds pieces of several contexts.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from quasir.core.progress import Progress, progress_of
from quasir.core.streams import BLOCK, DrawStreams
from quasir.core.types import Part, Proposal, Request, Target, optional_attribute
from quasir.draws.ceiling import RatioBounds, ratio_bounds
from quasir.draws.draw_blocks import AT_ONCE, CHECKED, RowMaker, cut_warnings, rows_at_once
from quasir.draws.draws import Draws
from quasir.engines import Engine, Local
from quasir.engines.engine import Task, Work
from quasir.errors import QuasirError, StoreError
from quasir.runs.contexts import Builder, Entry
from quasir.store import Rows, Shard, Store
from quasir.store.control import clear_stop, stop_asked
from quasir.store.locations import Location, location_of
from quasir.store.manifest import Origin, shard_name
from quasir.store.store import CONTEXT, ContextStore, Piece, between, write_shard

if TYPE_CHECKING:
    import pyarrow as pa

UNFINISHED = "unfinished"  # the folder of the parts, beside the shards
KEPT_EVERY = 2.0  # seconds of work after which what is drawn of a shard is written
QUICK, SLOW = 0.25, 1.0
"""Seconds of one step: below the first steps grow, above the second they shrink."""


def draw_shard(
    make: Callable[[int, int], pa.Table],
    task: Task,
    location: Location,
    origin: Origin,
    at_once: int | None,
    tell: Callable[[int], None],
) -> tuple[pa.Table, int, list[str]]:
    """Draw a shard from row to row, after those that an earlier process has kept."""
    from quasir.store.shard_format import joined

    number, size = task
    parts = _Parts(location, number, origin)
    tables = parts.read(size, at_once)
    kept = done = sum(len(table) for table in tables)
    fresh: list[pa.Table] = []
    step, last = CHECKED, time.monotonic()
    try:
        while done < size:
            start = time.monotonic()
            stop = _stop(done, size, step, at_once)
            fresh.append(make(done, stop))
            done = stop
            tell(done)
            now = time.monotonic()
            if now - start < QUICK:
                step = min(4 * step, AT_ONCE * BLOCK)
            elif now - start > SLOW:
                step = max(step // 2, 1)
            if now - last > KEPT_EVERY and done < size:
                tables.append(joined(fresh))
                fresh.clear()
                parts.write(tables[-1], done)
                last = time.monotonic()
    except BaseException:
        if fresh:
            with contextlib.suppress(QuasirError, OSError):
                parts.write(joined(fresh), done)
        raise
    return joined([*tables, *fresh]), kept, parts.names


def _stop(done: int, size: int, step: int, at_once: int | None) -> int:
    """Return where the next rows end: at a multiple of `at_once`, or after about `step` rows."""
    if at_once is not None:
        return min((done // at_once + 1) * at_once, size)
    left = BLOCK - done % BLOCK
    if left < BLOCK or step < BLOCK:
        return min(done + min(step, left), size)
    return min(done + step // BLOCK * BLOCK, size)


def kept_draws(store: Store) -> int:
    """Return how many draws a run has, with those of shards that are not whole yet."""
    return sum(kept_of_each(store).values())


def kept_of_each(store: Store) -> dict[int, int]:
    """Return how many draws a run has of each shard."""
    ends = {number: shard.draws for number, shard in store.shards.items()}
    for name in store.location.within(UNFINISHED).names():
        with contextlib.suppress(ValueError):
            number, start, stop = _rows_in(name)
            if start <= ends.get(number, 0):
                ends[number] = max(stop, ends.get(number, 0))
    return ends


def keep_short_shard(store: Store, number: int, at_once: int | None) -> None:
    """Make a shard with too few draws its own first part, so that only the rest is drawn."""
    from quasir.store.shard_format import read_part

    shard = store.shards[number]
    kept = shard.draws if at_once is None else shard.draws // at_once * at_once
    with contextlib.suppress(ValueError, OSError, StoreError):
        content = store.location.content(shard_name(number))
        if kept and hashlib.sha256(content).hexdigest() == shard.sha256:
            rows = read_part(content).slice(0, kept)
            _Parts(store.location, number, store.origin).write(rows, kept)


class _Parts:
    """The parts of one shard; the name of each has its rows and the hash of its content."""

    def __init__(self, location: Location, number: int, origin: Origin) -> None:
        self.location, self.number, self.origin = location.within(UNFINISHED), number, origin
        self.names: list[str] = []

    def write(self, table: pa.Table, stop: int) -> None:
        from quasir.store.shard_format import bytes_of

        start = stop - len(table)
        content = bytes_of(table.replace_schema_metadata(self._mark(start)))
        digest = hashlib.sha256(content).hexdigest()[:32]
        name = f"{self.number:05d}-{start:07d}-{stop:07d}-{digest}.parquet"
        self.location.write(name, lambda temporary: temporary.write_bytes(content))
        self.names.append(name)

    def read(self, size: int, at_once: int | None) -> list[pa.Table]:
        """Return the rows that are there from the first on; a part that is wrong ends them."""
        from quasir.store.shard_format import read_part

        tables: list[pa.Table] = []
        done = 0
        for name in self.location.names():
            with contextlib.suppress(ValueError, OSError):
                number, start, stop = _rows_in(name)
                # Rows of a network begin where they would have begun without a stop.
                fits = at_once is None or stop % at_once == 0 or stop == size
                if number != self.number or start != done or stop > size or not fits:
                    continue
                content = self.location.content(name)
                if hashlib.sha256(content).hexdigest()[:32] not in name:
                    continue
                table = read_part(content)
                marked = self._mark(start).items() <= (table.schema.metadata or {}).items()
                if marked and len(table) == stop - start:
                    tables.append(table)
                    self.names.append(name)
                    done = stop
        return tables

    def _mark(self, start: int) -> dict[bytes, bytes]:
        return self.origin.mark(self.number) | {b"start": json.dumps(start).encode()}


def _rows_in(name: str) -> list[int]:
    """Return the shard of a part, its first row, and where it ends."""
    return [int(x) for x in name.split("-")[:3]]


CONTEXTS_AT_ONCE = 512
"""Contexts whose targets and proposals are in memory at once; each takes some 40 KB."""
PASSES = 1e-4
"""How far apart two machines may find the log of one ceiling: float32 passes differ by less."""


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


Pairs: TypeAlias = Given | Builder  # what makes the target and the proposal of each context


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
            f"{shard_name(number)} was written on {machine} to {location.address}, which is not "
            "seen here: give a folder that all machines share, or --shards-at s3://bucket/run."
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
        from quasir.store.shard_format import table_of

        (entry,) = self.entries
        first = task[0] * self.shard_size
        rows = RowMaker(*pairs.pair(entry), DrawStreams(entry.seed), first + task[1])
        return lambda start, stop: table_of(rows(first + start, first + stop).rows, first + start)

    def _mixed(self, pairs: Pairs, pieces: list[Piece]) -> Callable[[int, int], pa.Table]:
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


def draw_together(
    pairs: Pairs, entries: Sequence[Entry], pieces: Sequence[Piece], check: bool = True
) -> list[Draws]:
    """Return the draws of some pieces, by their blocks."""
    stretches = [
        (entries[i], block, max(start - block * BLOCK, 0), min(stop - block * BLOCK, BLOCK))
        for i, start, stop in pieces
        for block in range(start // BLOCK, -(-stop // BLOCK))
    ]
    made = {entry.index: pairs.pair(entry) for entry, *_ in stretches}
    every = [made[entry.index] for entry, *_ in stretches]
    streams = [DrawStreams(entry.seed) for entry, *_ in stretches]
    together = optional_attribute(every[0][1], "sample_together")
    found: Sequence[Part | None] = [None] * len(stretches)
    if together is not None:
        requests = [
            Request(stream.propose(block), start, stop)
            for (_, block, start, stop), stream in zip(stretches, streams, strict=True)
        ]
        found = together([proposal for _, proposal in every], requests) or found
    draws = []
    for i, (_, block, start, stop) in enumerate(stretches):
        maker = RowMaker(*every[i], streams[i], block * BLOCK + stop)
        draws.append(maker.rows(block, start, stop, check and i == 0, found[i]))
    return draws
