"""Summaries of shards, kept beside them, so that a second look at a run reads no draws.

`draws/shard-00000.summary` belongs to `draws/shard-00000.parquet`. It records the shard's hash from
the manifest, and the size and time of its file. Where one of them differs, or the summary is absent
or unreadable, the shard is read and summarised again. The shard's hash is then checked, unless its
file still has the size and time that it was written with. The checksums of the pages that are read
are always checked.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.files import write_with
from quasir.core.progress import Progress, Report, progress_of
from quasir.errors import StoreError
from quasir.estimation.bins import Bins
from quasir.estimation.summary import Summary, kept
from quasir.estimation.tail import tail_size
from quasir.store import FEATURE, Store
from quasir.store.manifest import shard_name

__all__ = ["shard_summary", "summarise"]

FORMAT = 1
MERGED_AT_ONCE = 16
WORKERS = min(4, os.cpu_count() or 1)
"""Threads that make summaries, each in the memory of one shard."""


def summarise(store: Store, *, keep: bool = True, progress: Progress = False) -> Summary:
    """Return the summary of a store's draws, in the memory of a few shards.

    Parameters
    ----------
    store : Store
    keep : bool
        Whether to write new summaries beside their shards.
    progress : bool or callable

    Raises
    ------
    StoreError
        Where a shard is damaged or absent.
    """
    report, n = progress_of(progress, "summarised"), len(store)
    more: dict[int, int] = {}
    while True:
        whole, above = _merged(store, keep, more, report)
        if whole.tail_is_whole:
            return whole
        # A shard may hold more of the largest ratios than it kept: ask it for all that can matter.
        more = {i: tail_size(n) + 1 for i, level in above.items() if level > whole.tail_begins}


def _merged(
    store: Store, keep: bool, more: dict[int, int], report: Report
) -> tuple[Summary, dict[int, float]]:
    """Return the summary of all shards, and by shard its `Summary.whole_above`."""
    n, done = len(store), 0
    parts: list[Summary] = []
    above: dict[int, float] = {}
    damaged = []
    for number, summary in _each(store, keep, more):
        if summary is None:
            damaged.append(number)
            continue
        above[number] = summary.whole_above
        parts.append(summary)
        if len(parts) > MERGED_AT_ONCE:
            parts = [Summary.merged(parts, kept(n))]
        done += summary.n
        report(done, n, done)
    store.refuse(damaged)
    return Summary.merged(parts, kept(n)), above


def _each(store: Store, keep: bool, more: dict[int, int]) -> Iterator[tuple[int, Summary | None]]:
    """Yield the summaries in order; threads read and bin the shards.

    Reading and binning release the interpreter's lock most of the time.
    """
    with ThreadPoolExecutor(WORKERS) as pool:
        under_way: deque[tuple[int, Future[Summary | None]]] = deque()
        for number in store.numbers():
            task = pool.submit(shard_summary, store, number, keep, more.get(number))
            under_way.append((number, task))
            if len(under_way) > 2 * WORKERS:
                first, future = under_way.popleft()
                yield first, future.result()
        for first, future in under_way:
            yield first, future.result()


def summary_path(store: Store, number: int) -> Path:
    """Return the path of a shard's summary, which is always in the run's folder."""
    return store.path(number).with_suffix(".summary")


def shard_summary(
    store: Store, number: int, keep: bool = True, largest: int | None = None
) -> Summary | None:
    """Return the summary of a shard, read or made; None if the shard is damaged.

    `largest` is how many of the largest ratios it must hold, if more than usual.
    """
    there = _read(store, number)
    if there is not None and (
        largest is None or there.whole_above == -np.inf or there.often.sum() >= largest
    ):
        return there
    read = _scores(store, number)
    if read is None:
        return None
    columns, identity = read
    features = {
        name.removeprefix(FEATURE): column
        for name, column in columns.items()
        if name.startswith(FEATURE)
    }
    summary = Summary.of(
        columns["log_p"], columns["log_q"], columns.get("log_base"), features, largest
    )
    if keep:
        # A run that cannot be written can still be estimated.
        with contextlib.suppress(StoreError):
            sha256 = store.shards[number].sha256
            _write(summary, summary_path(store, number), sha256, identity)
    return summary


def _scores(store: Store, number: int) -> tuple[dict[str, NDArray[Any]], list[int]] | None:
    """Return the numbers of a shard, and the identity of its file; None if damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    location, name, entry = store.location, shard_name(number), store.shards[number]
    try:
        identity = location.identity(name)
        if location.tells_time and identity == entry.file:
            source = location.source(name)
        else:
            content = location.content(name)
            if hashlib.sha256(content).hexdigest() != entry.sha256:
                return None
            source = pa.BufferReader(content)
        file = pq.ParquetFile(source, memory_map=True, page_checksum_verification=True)
        store.check_origin(number, file.schema_arrow.metadata)
        names = [name for name in file.schema_arrow.names if name.startswith(("log_", FEATURE))]
        table = file.read([name for name in names if name != "log_u"], use_threads=False)
    except (OSError, pa.ArrowException):
        return None
    return {name: table[name].to_numpy() for name in table.column_names}, identity


def _write(summary: Summary, path: Path, sha256: str, identity: list[int]) -> None:
    """Write the facts as JSON, then the arrays one by one, without the overhead of a zip file."""
    parts = asdict(summary)
    parts |= parts.pop("bins")
    arrays = {k: v for k, v in parts.items() if isinstance(v, np.ndarray)}
    facts = {k: v for k, v in parts.items() if k not in arrays}
    facts |= {"format": FORMAT, "sha256": sha256, "file": identity, "arrays": list(arrays)}
    path.parent.mkdir(parents=True, exist_ok=True)

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            for array in (np.array(json.dumps(facts)), *arrays.values()):
                np.save(file, array, allow_pickle=False)

    write_with(path, write, durable=False)


def _read(store: Store, number: int) -> Summary | None:
    """Return the stored summary of the shard, or None if there is none that fits it."""
    try:
        with summary_path(store, number).open("rb") as file:
            facts = json.loads(str(np.load(file, allow_pickle=False)))
            if (facts.pop("format"), facts.pop("sha256"), facts.pop("file")) != (
                FORMAT,
                store.shards[number].sha256,
                store.location.identity(shard_name(number)),
            ):
                return None
            parts = {name: np.load(file, allow_pickle=False) for name in facts.pop("arrays")}
        parts |= facts | {k: tuple(facts[k]) for k in ("names", "boolean")}
        bins = Bins(**{name: parts.pop(name) for name in Bins.__dataclass_fields__})
        return Summary(bins=bins, **parts)
    except (OSError, ValueError, KeyError, TypeError, EOFError):
        return None
