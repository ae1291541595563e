"""A shard under way: what is drawn of it is kept in parts, so that a stopped run goes on there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from quasir.core.streams import BLOCK
from quasir.draws.draw_blocks import AT_ONCE, CHECKED
from quasir.engines.engine import Task
from quasir.errors import QuasirError, StoreError
from quasir.store.locations import Location
from quasir.store.manifest import Origin, shard_name
from quasir.store.store import Store

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
            number, start, stop = (int(x) for x in name.split("-")[:3])
            if start <= ends.get(number, 0):
                ends[number] = max(stop, ends.get(number, 0))
    return ends


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
            _Parts(store.location, number, store.origin).write(rows, kept)


class _Parts:
    """The parts of one shard; the name of each has its rows and the hash of its content."""

    def __init__(self, location: Location, number: int, origin: Origin) -> None:
        self.location, self.number, self.origin = location.within(UNFINISHED), number, origin
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
        tables: list[pa.Table] = []
        done = 0
        for name in self.location.names():
            with contextlib.suppress(ValueError, OSError):
                number, start, stop = (int(x) for x in name.split("-")[:3])
                # Rows of a network begin where they would have begun without a stop.
                fits = at_once is None or stop % at_once == 0 or stop == size
                if number == self.number and start == done and stop <= size and fits:
                    table = self._read(name, start)
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
