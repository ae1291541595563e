"""A summary of draws: a few hundred kilobytes that give every estimate, and that merge.

`draws/shard-00000.summary` records the hash, size and time of its shard's file. Where one of them
differs, or there is none, the shard is read again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.files import write_with
from quasir.core.progress import Progress, progress_of
from quasir.core.types import Array
from quasir.errors import InputError, StoreError
from quasir.estimation.binned_ratios import Bins, largest_of
from quasir.estimation.intervals import tail_size
from quasir.estimation.ratios import ratio_columns
from quasir.store import FEATURE, Store
from quasir.store.manifest import shard_name

FORMAT = 1
MERGED_AT_ONCE = 16
WORKERS = min(4, os.cpu_count() or 1)
"""Threads that make summaries, each in the memory of one shard."""


def kept(n: int) -> int:
    """Return how many of the largest ratios a summary of n draws keeps.

    A share n/N of the 3 sqrt(N) ratios of the run's tail is expected: at most 3 sqrt(n). A tenth
    more, and 64, allow for chance; if one is missing, `Summary.tail_is_whole` is False.
    """
    return math.ceil(1.1 * tail_size(n)) + 64


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A summary of draws; the columns are those of `ratio_columns`."""

    n: int  # all draws, also those with P(x) = 0
    names: tuple[str, ...]
    boolean: tuple[bool, ...]
    has_base: bool
    bins: Bins
    low_shift: Array  # (K,)
    high_shift: Array
    mean: Array  # (K,) of each column over all draws, and
    spread: Array  # the sum of squared deviations from it
    log_w: Array  # the largest log ratios, ascending and without repeats, and
    often: NDArray[np.int64]  # how often each was drawn
    whole_above: float  # no log ratio at or above this is missing from `log_w`

    @property
    def log_max(self) -> float:
        """The largest log ratio; -inf if no draw has P(x) > 0."""
        return float(self.log_w[-1]) if len(self.log_w) else -math.inf

    @classmethod
    def of(
        cls,
        log_p: Array,
        log_q: Array,
        log_base: Array | None = None,
        features: Mapping[str, NDArray[Any]] | None = None,
        keep: int | None = None,
        fineness: int | None = None,
    ) -> Summary:
        """Summarise draws by their scores."""
        columns = ratio_columns(log_p, log_q, log_base, features)
        possible = columns.log_ratio > -np.inf
        everything = bool(possible.all())

        def seen(column: Array) -> Array:
            return column if everything else column[possible]

        log_w = seen(columns.log_ratio)
        low, high = (list(map(seen, each)) for each in (columns.low, columns.high))
        bins = Bins.of(log_w, low, high, fineness)
        keep = kept(len(log_p)) if keep is None else keep
        top = log_w[log_w > bins.above(keep)]
        largest, often, whole_above = _largest(top, np.ones(len(top), np.int64), keep)
        if len(top) < len(log_w):
            whole_above = float(largest[0])
        mean, spread = columns.over_all()
        return cls(
            n=len(log_p),
            names=columns.names,
            boolean=columns.boolean,
            has_base=columns.has_base,
            bins=bins,
            low_shift=columns.low_shift,
            high_shift=columns.high_shift,
            mean=mean,
            spread=spread,
            log_w=largest,
            often=often,
            whole_above=whole_above,
        )

    @classmethod
    def merged(cls, parts: Sequence[Summary], keep: int | None = None) -> Summary:
        """Return the summary of all parts, with the largest `keep` ratios, or `kept(n)`."""
        if len(parts) == 1:
            return parts[0]
        first = parts[0]
        for part in parts[1:]:
            if (part.names, part.has_base) != (first.names, first.has_base):
                raise InputError(f"summaries of other columns: {first.names}, {part.names}.")
        n = sum(part.n for part in parts)
        log_max = max(part.log_max for part in parts)
        most = max(parts, key=lambda part: len(part.bins))
        low_shift = most.low_shift.copy()
        if first.has_base and log_max > -np.inf:
            low_shift[-1] = log_max
        bins = Bins.merged([part.shifted(low_shift, most.high_shift).bins for part in parts])
        # Chan, Golub and LeVeque (1983): add the spreads of the parts and that of their means.
        weights = np.array([part.n for part in parts])[:, None] / n
        means = np.stack([part.mean for part in parts])
        mean = (weights * means).sum(axis=0)
        spread = np.stack([part.spread for part in parts]).sum(axis=0)
        with np.errstate(invalid="ignore", over="ignore"):  # as in `Columns.over_all`
            spread = spread + n * (weights * (means - mean) ** 2).sum(axis=0)
        log_w, often, whole_above = _largest(
            np.concatenate([part.log_w for part in parts]),
            np.concatenate([part.often for part in parts]),
            kept(n) if keep is None else keep,
        )
        boolean = zip(*(part.boolean for part in parts), strict=True)
        return replace(
            first,
            n=n,
            boolean=tuple(map(all, boolean)),
            bins=bins,
            low_shift=low_shift,
            high_shift=most.high_shift,
            mean=mean,
            spread=spread,
            log_w=log_w,
            often=often,
            whole_above=max(whole_above, *(part.whole_above for part in parts)),
        )

    def shifted(self, low_shift: Array, high_shift: Array) -> Summary:
        """Return the same summary with other shifts of its columns."""
        if not len(low_shift):
            return self
        bins = self.bins.shifted(self.low_shift - low_shift, self.high_shift - high_shift)
        return replace(self, bins=bins, low_shift=low_shift, high_shift=high_shift)

    @property
    def tail_is_whole(self) -> bool:
        """Whether no ratio is missing that the fit needs, as where draws were saved in order."""
        return self.tail_begins >= self.whole_above

    @property
    def tail_begins(self) -> float:
        """The smallest log ratio that the fit of the tail needs, among those kept."""
        largest = largest_of(self.log_w, self.often, tail_size(self.n) + 1)
        return float(largest[0]) if len(largest) > tail_size(self.n) else -np.inf


def _largest(
    log_w: Array, often: NDArray[np.int64], keep: int
) -> tuple[Array, NDArray[np.int64], float]:
    """Return the largest values of `keep` draws, how often each occurs, and `whole_above`."""
    values, places = np.unique(log_w, return_inverse=True)
    counts = np.bincount(places, often, len(values)).astype(np.int64)
    ahead = np.cumsum(counts[::-1])[::-1] - counts
    enough = ahead < keep
    whole_above = -math.inf if enough.all() else float(values[enough][0])
    return values[enough], counts[enough], whole_above


def summarise(store: Store, *, keep: bool = True, progress: Progress = False) -> Summary:
    """Return the summary of a store's draws, in the memory of a few shards."""
    report, n = progress_of(progress, "summarised"), len(store)
    more: dict[int, int] = {}
    while True:
        done, damaged = 0, []
        parts: list[Summary] = []
        above: dict[int, float] = {}
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
        whole = Summary.merged(parts, kept(n))
        if whole.tail_is_whole:
            return whole
        # A shard may hold more of the largest ratios than it kept: ask it for all that can matter.
        more = {i: tail_size(n) + 1 for i, level in above.items() if level > whole.tail_begins}


def _each(store: Store, keep: bool, more: dict[int, int]) -> Iterator[tuple[int, Summary | None]]:
    """Yield the summaries in order; threads read and bin, which mostly releases the lock."""
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
    """Return the summary of a shard, with the `largest` ratios; None if the shard is damaged."""
    there = _read(store, number)
    if there is not None and (
        largest is None or there.whole_above == -np.inf or there.often.sum() >= largest
    ):
        return there
    if (read := _scores(store, number)) is None:
        return None
    columns, identity = read
    features = {
        name.removeprefix(FEATURE): x for name, x in columns.items() if name.startswith(FEATURE)
    }
    scores = columns["log_p"], columns["log_q"], columns.get("log_base")
    summary = Summary.of(*scores, features, largest)
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
