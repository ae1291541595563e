"""Drawing into a store, shard by shard; a stopped run goes on within its last shard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from quasir.core.progress import Progress, progress_of
from quasir.core.streams import BLOCK, DrawStreams
from quasir.core.types import Proposal, Target
from quasir.draws.ceiling import RatioBounds, ratio_bounds
from quasir.draws.draw_blocks import RowMaker, cut_warnings, rows_at_once
from quasir.engines.engine import Engine, Task, Work
from quasir.errors import StoreError
from quasir.runs.shard_work import (
    Tally,
    Written,
    begin_drawing,
    keep_short_shard,
    run_tasks,
    write_drawn,
)
from quasir.store import Store
from quasir.store.locations import Location, location_of
from quasir.store.manifest import Origin

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["draw_into"]

PASSES = 1e-4
"""How far apart two machines may find the log of one ceiling: float32 passes differ by less."""

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
    """
    begin_drawing(store)
    known = ratio_bounds(target, proposal)
    if store.manifest.known is None:
        store.change(known=known.to_dict())
        store.write_manifest()
    refuse_other_ratios(RatioBounds.from_dict(store.manifest.known), known, store)
    missing = store.missing(n)
    for number in store.shards.keys() & set(missing):
        keep_short_shard(store, number, rows_at_once(target, proposal))
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
    return run_tasks(store, tasks, work, here, tally, engine, lambda: bool(store.missing(n)))


def refuse_other_ratios(before: RatioBounds, now: RatioBounds, store: Store) -> None:
    """Refuse to draw more where what the run knows of its ratios is not true of these draws."""
    other_z = before.log_z is not None and before.log_z != now.log_z
    if other_z or before.log_ceiling < now.log_ceiling - PASSES:
        raise StoreError(
            f"{store.folder} was begun with another target or proposal. It says: {before.basis} "
            f"Of what would be drawn now: {now.basis} Its guarantees would not hold: draw into "
            "another folder."
        )


def _here(store: Store, target: Target, proposal: Proposal, tally: Tally) -> Work:
    return _work(
        target,
        proposal,
        streams=store.streams,
        blocks_a_shard=store.blocks_a_shard,
        location=store.location,
        origin=store.origin,
        tell=tally.within,
    )


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
        return _work(
            *self.parts(),
            streams=self.streams,
            blocks_a_shard=self.blocks_a_shard,
            location=location_of(self.address),
            origin=self.origin,
        )


def _given(target: Target, proposal: Proposal) -> tuple[Target, Proposal]:
    return target, proposal


def _work(
    target: Target,
    proposal: Proposal,
    *,
    streams: DrawStreams,
    blocks_a_shard: int,
    location: Location,
    origin: Origin,
    tell: Callable[[int], None] = lambda drawn: None,
) -> Work:
    """Return a function that draws a shard and writes it, whole or not at all."""
    from quasir.store.shard_format import table_of

    at_once, warnings = rows_at_once(target, proposal), cut_warnings(target, proposal)

    def work(task: Task) -> Written:
        first = task[0] * blocks_a_shard * BLOCK
        rows = RowMaker(target, proposal, streams, first + task[1])

        def make(start: int, stop: int) -> pa.Table:
            return table_of(rows(first + start, first + stop).rows, first + start)

        return write_drawn(
            make,
            task,
            location=location,
            origin=origin,
            at_once=at_once,
            warnings=warnings,
            tell=tell,
        )

    return work
