"""Drawing into a store, shard by shard; a stopped run goes on within its last shard.

A shard of an ordinary run holds draws that follow each other. A shard of a run over contexts holds
pieces of several contexts, drawn in one batch if they can be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from quasir.core.progress import Progress, progress_of
from quasir.core.scores import check_log_scores, name_of
from quasir.core.streams import BLOCK, DrawStreams
from quasir.core.types import Part, Proposal, Request, Target, optional_attribute
from quasir.draws.ceiling import RatioBounds, ratio_bounds
from quasir.draws.draw_blocks import RowMaker, cut_warnings, rows_at_once, scored
from quasir.draws.draws import Draws
from quasir.engines.engine import Engine, Task, Work
from quasir.errors import StoreError
from quasir.runs.contexts import Entry
from quasir.runs.shard_work import (
    Tally,
    Written,
    begin_drawing,
    keep_short_shard,
    run_tasks,
    write_drawn,
)
from quasir.store import Rows, Store
from quasir.store.context_store import ContextStore, Piece, between
from quasir.store.locations import location_of
from quasir.store.manifest import Origin
from quasir.store.store import CONTEXT
from quasir.targets.product import Product

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
    """Draw the shards that a run of n draws from one target still lacks; return how many draws.

    Draw i depends on the store's seed and on i only, so it does not matter which draws were there
    before, or which worker makes it. A file `stop` in the run's folder ends the drawing between
    two shards; the manifest then has the reason under `stopped`.
    """
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

    `load` makes `pairs` in another process.
    """
    begin_drawing(store)
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
    tally = Tally(sum(size for _, size in tasks), progress_of(progress, "drawn"))
    work = ShardWork(
        load=load,
        entries=entries,
        pieces=pieces,
        shard_size=store.shard_size,
        address=store.location.address,
        origin=store.origin,
    )
    here = work.by(pairs, tally.within)
    return run_tasks(store, tasks, work, here, tally, engine, lambda: bool(store.missing(n)))


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
            first = 0 if self.pieces is None else self.pieces[task[0]][0].context
            at_once = rows_at_once(*pairs.pair(self.entries[first]))
            make = (
                self._successive(pairs, task)
                if self.pieces is None
                else self._mixed(pairs, self.pieces[task[0]])
            )
            return write_drawn(
                make, task, location=location, origin=self.origin, at_once=at_once, tell=tell
            )

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
                tables.append(table_of(_rows_of(group, draws), 0))
                for piece in group:
                    pairs.release(self.entries[piece.context])
            return joined(tables)

        return make


def _rows_of(pieces: Sequence[Piece], draws: Sequence[Draws]) -> Rows:
    """Return the draws of some pieces as rows of a store, with their context and index."""
    rows = Draws.concatenate(draws).rows
    context = np.repeat([piece.context for piece in pieces], [p.stop - p.start for p in pieces])
    index = np.concatenate([np.arange(piece.start, piece.stop) for piece in pieces])
    columns = {CONTEXT: context.astype(np.int64), "index": index.astype(np.int64)}
    return Rows(columns | rows.columns, rows.items)


class Stretch(NamedTuple):
    """Rows of one block of a context."""

    entry: Entry
    block: int
    start: int
    stop: int


def _stretches(entries: Sequence[Entry], pieces: Sequence[Piece]) -> list[Stretch]:
    made = []
    for index, start, stop in pieces:
        for block in range(start // BLOCK, -(-stop // BLOCK)):
            first = block * BLOCK
            rows = max(start - first, 0), min(stop - first, BLOCK)
            made.append(Stretch(entries[index], block, *rows))
    return made


def draw_together(
    pairs: Pairs, entries: Sequence[Entry], pieces: Sequence[Piece], check: bool = True
) -> list[Draws]:
    """Return the draws of some pieces, by their blocks.

    Draw i of a context depends on its seed and on i only, whatever is drawn beside it. With
    `check`, the first draws are scored again: log_prob must give what they were drawn with.
    """
    stretches = _stretches(entries, pieces)
    made = {s.entry.index: pairs.pair(s.entry) for s in stretches}
    every = [made[s.entry.index] for s in stretches]
    streams = [DrawStreams(s.entry.seed) for s in stretches]
    together = optional_attribute(every[0][1], "sample_together")
    found: list[Part] | None = None
    if together is not None:
        requests = [
            Request(stream.propose(s.block), s.start, s.stop)
            for s, stream in zip(stretches, streams, strict=True)
        ]
        found = together([proposal for _, proposal in every], requests)
    if found is None:
        return [
            RowMaker(*pair, stream, s.block * BLOCK + s.stop).rows(
                s.block, s.start, s.stop, check=check and s is stretches[0]
            )
            for pair, stream, s in zip(every, streams, stretches, strict=True)
        ]
    return [
        _scored(pair, stream, s, part, check=check and s is stretches[0])
        for pair, stream, s, part in zip(every, streams, stretches, found, strict=True)
    ]


def _scored(
    pair: tuple[Target, Proposal], stream: DrawStreams, stretch: Stretch, part: Part, check: bool
) -> Draws:
    """Score what was drawn together with the draws of other contexts."""
    target, proposal = pair
    base = target.base if isinstance(target, Product) else None
    log_q = check_log_scores(part.log_q, part.items, name_of(proposal), "log q")
    known = part.log_base if getattr(proposal, "base", None) is base else None
    log_base = log_q if proposal is base else known
    log_u = stream.log_u(stretch.block)[stretch.start : stretch.stop]
    whole = Part(part.items, log_q, log_base)
    return scored(target, proposal, whole, log_u=log_u, seed=stream.seed, check=check)
