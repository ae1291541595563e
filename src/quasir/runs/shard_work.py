"""Shards through an engine: drawn from row to row, written whole, recorded, and counted."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from quasir.core.progress import Report
from quasir.core.streams import BLOCK
from quasir.draws.draw_blocks import AT_ONCE, CHECKED
from quasir.engines.engine import Engine, Make, Task, Work
from quasir.errors import QuasirError, StoreError
from quasir.store import Shard
from quasir.store.control import clear_stop, stop_asked
from quasir.store.locations import Location
from quasir.store.manifest import Origin, shard_name
from quasir.store.store import Store, write_shard

if TYPE_CHECKING:
    import pyarrow as pa


UNFINISHED = "unfinished"
"""The folder of the parts, beside the shards."""
KEPT_EVERY = 2.0
"""Seconds of work after which what is drawn of a shard is written."""
QUICK, SLOW = 0.25, 1.0
"""Seconds of one step: below the first steps grow, above the second they shrink."""


class Shaped(NamedTuple):
    """A shard: its table, how many of its draws were kept from before, and its parts' names."""

    table: pa.Table
    kept: int
    parts: list[str]


def draw_shard(
    make: Callable[[int, int], pa.Table],
    *,
    number: int,
    size: int,
    location: Location,
    origin: Origin,
    at_once: int | None,
    tell: Callable[[int], None] = lambda drawn: None,
) -> Shaped:
    """Draw a shard from row to row, after those that an earlier process has kept."""
    from quasir.store.shard_format import joined

    parts = _Parts(location.within(UNFINISHED), number, origin)
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
    return Shaped(joined([*tables, *fresh]), kept, parts.names)


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
            number, start, stop = (int(x) for x in name.split("-")[:3])
            if start <= ends.get(number, 0):
                ends[number] = max(stop, ends.get(number, 0))
    return ends


class _Parts:
    """The parts of one shard."""

    def __init__(self, location: Location, number: int, origin: Origin) -> None:
        self.location, self.number, self.origin = location, number, origin
        self.names: list[str] = []

    def write(self, table: pa.Table, stop: int) -> None:
        """Write rows that end before row `stop`."""
        import pyarrow as pa

        from quasir.store.shard_format import write

        start = stop - len(table)
        buffer = pa.BufferOutputStream()
        write(table.replace_schema_metadata(self._mark(start)), buffer)
        content = buffer.getvalue().to_pybytes()
        digest = hashlib.sha256(content).hexdigest()[:32]
        name = f"{self.number:05d}-{start:07d}-{stop:07d}-{digest}.parquet"
        self.location.write(name, lambda temporary: temporary.write_bytes(content))
        self.names.append(name)

    def read(self, size: int, at_once: int | None) -> list[pa.Table]:
        """Return the rows that are there from the first on; a part that is wrong ends them."""
        found = [n for n in self.location.names() if n.startswith(f"{self.number:05d}-")]
        tables: list[pa.Table] = []
        done = 0
        for name in found:
            with contextlib.suppress(ValueError, OSError):
                _, start, stop = (int(x) for x in name.split("-")[:3])
                # Rows of a network begin where they would have begun without a stop.
                fits = at_once is None or stop % at_once == 0 or stop == size
                table = self._read(name, start) if start == done and stop <= size and fits else None
                if table is not None and len(table) == stop - start:
                    tables.append(table)
                    self.names.append(name)
                    done = stop
        return tables

    def _read(self, name: str, start: int) -> pa.Table | None:
        """Return a part, or None if it is damaged, edited or of another run."""
        import pyarrow as pa

        from quasir.store.shard_format import read_part

        content = self.location.content(name)
        if hashlib.sha256(content).hexdigest()[:32] not in name:
            return None
        table = read_part(pa.BufferReader(content))
        mark = self._mark(start)
        found = {key: (table.schema.metadata or {}).get(key) for key in mark}
        return table if found == mark else None

    def _mark(self, start: int) -> dict[bytes, bytes]:
        return self.origin.mark(self.number) | {b"start": json.dumps(start).encode()}


def keep_short_shard(store: Store, number: int, at_once: int | None) -> None:
    """Make a shard with too few draws its own first part, so that only the rest is drawn."""
    import pyarrow as pa

    from quasir.store.shard_format import read_part

    shard = store.shards[number]
    kept = shard.draws if at_once is None else shard.draws // at_once * at_once
    with contextlib.suppress(ValueError, OSError, StoreError):
        content = store.location.content(shard_name(number))
        if kept and hashlib.sha256(content).hexdigest() == shard.sha256:
            rows = read_part(pa.BufferReader(content)).slice(0, kept)
            _Parts(store.location.within(UNFINISHED), number, store.origin).write(rows, kept)


@dataclass(frozen=True, kw_only=True)
class Written:
    """A shard that a worker has written, and what the manifest records about it."""

    shard: Shard
    machine: str
    process: int
    kept: int
    """Draws of it that an earlier process had kept."""
    parts: list[str]


def begin_drawing(store: Store) -> None:
    """Remove what an earlier process has left: a request to stop, and temporary files."""
    clear_stop(store.folder)
    store.location.clean()
    store.location.within(UNFINISHED).clean()
    if store.manifest.stopped is not None:
        store.change(stopped=None)
        store.write_manifest()


def run_tasks(
    store: Store,
    tasks: list[Task],
    make: Make,
    here: Work,
    tally: Tally,
    engine: Engine | None,
    lacking: Callable[[], bool],
) -> int:
    """Let an engine draw some shards, and record each; return how many draws were made."""
    if engine is None:
        done = _in_this_process(store, tasks, here)
    else:
        done = engine.map(make, tasks, lambda: stop_asked(store.folder), here)
    workers, finished, kept = _Workers(), list[str](), 0
    parts, before = store.location.within(UNFINISHED), kept_of_each(store)
    try:
        for (number, size), written in done:
            _see(store.location, number, written)
            store.change(**workers.after(written.machine, written.process))
            store.record(number, written.shard)
            tally.finish(size)
            # What a worker kept that was lost since was drawn now, too.
            kept += min(written.kept, before.get(number, 0))
            finished += written.parts
            if store.all_listed:
                for name in finished:
                    parts.remove(name)
                finished.clear()
    except KeyboardInterrupt as stopped:
        store.settle()
        kept_now = kept_draws(store)
        stopped.args = (f"{kept_now:,} draws are kept in {store.folder}; the same command goes on",)
        raise
    finally:
        store.settle()
    if not lacking():
        parts.drop()
        store.location.clean()  # of what workers that were killed have left
    why = stop_asked(store.folder)
    if why is not None and lacking():
        store.change(stopped=why)
        store.write_manifest()
    clear_stop(store.folder)
    return tally.done - kept


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


class Tally:
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


def write_drawn(
    make: Callable[[int, int], pa.Table],
    task: Task,
    *,
    location: Location,
    origin: Origin,
    at_once: int | None,
    tell: Callable[[int], None] = lambda drawn: None,
) -> Written:
    """Draw a shard, and write it whole or not at all; see `draw_shard`."""
    number, size = task
    start = time.perf_counter()
    table, kept, parts = draw_shard(
        make,
        number=number,
        size=size,
        location=location,
        origin=origin,
        at_once=at_once,
        tell=tell,
    )
    sha256 = write_shard(location, number, table, origin)
    # Draws that were kept took their time in another process.
    seconds = (time.perf_counter() - start) * size / (size - kept) if kept < size else None
    return Written(
        shard=Shard(size, sha256, seconds, location.identity(shard_name(number))),
        machine=socket.gethostname(),
        process=os.getpid(),
        kept=kept,
        parts=parts,
    )


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
