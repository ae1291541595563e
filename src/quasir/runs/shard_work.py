"""Shards through an engine: each is written whole, recorded in the manifest, and counted."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from quasir.core.progress import Report
from quasir.engines.engine import Engine, Make, Task, Work
from quasir.errors import StoreError
from quasir.store import Rows, Shard, Store
from quasir.store.control import clear_stop, stop_asked
from quasir.store.locations import Location
from quasir.store.manifest import shard_name
from quasir.store.origin import Origin
from quasir.store.store import write_shard

__all__ = ["Tally", "Written", "begin_drawing", "carry_out", "recorded"]


@dataclass(frozen=True, kw_only=True)
class Written:
    """A shard that a worker has written, and what the manifest records about it."""

    shard: Shard
    doubts: tuple[str, ...]
    machine: str
    process: int


def begin_drawing(store: Store) -> None:
    """Remove what an earlier process has left: a request to stop, and temporary files."""
    clear_stop(store.folder)
    store.location.clean()
    if store.manifest.stopped is not None:
        store.change(stopped=None)
        store.write_manifest()


def carry_out(
    store: Store,
    tasks: list[Task],
    make: Make,
    here: Work,
    tally: Tally,
    engine: Engine | None,
    lacking: Callable[[], bool],
) -> int:
    """Let an engine draw some shards, and record each; return how many draws were made.

    Parameters
    ----------
    store : Store
    tasks : list of (shard, draws)
    make : callable
        The work for a worker of the engine.
    here : callable
        The work in this process.
    tally : Tally
    engine : Engine or None
        None draws in this process.
    lacking : callable
        Whether shards are still missing, after a request to stop.
    """
    if engine is None:
        done = _in_this_process(store, tasks, here)
    else:
        done = engine.map(make, tasks, lambda: stop_asked(store.folder), here)
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
    if why is not None and lacking():
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


def recorded(
    location: Location,
    number: int,
    rows: Rows,
    first: int,
    origin: Origin,
    doubts: tuple[str, ...],
    start: float,
) -> Written:
    """Write rows as a shard; `start` is when the work on it began, by `time.perf_counter`."""
    sha256 = write_shard(location, number, rows, first, origin)
    seconds = time.perf_counter() - start
    return Written(
        shard=Shard(len(rows), sha256, seconds, location.identity(shard_name(number))),
        doubts=doubts,
        machine=socket.gethostname(),
        process=os.getpid(),
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
