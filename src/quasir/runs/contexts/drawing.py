"""Drawing for many contexts: a shard holds pieces of several, drawn in one batch if they can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from quasir.core.progress import Progress, progress_of
from quasir.core.scores import check_log_scores, name_of
from quasir.core.streams import BLOCK, DrawStreams
from quasir.core.types import Part, Proposal, Request, optional_attribute
from quasir.draws.draw_blocks import RowMaker, rows_at_once, scored
from quasir.draws.draws import Draws
from quasir.engines.engine import Engine, Task, Work
from quasir.runs.contexts.maker import Builder, ContextParts
from quasir.runs.contexts.table import Entry
from quasir.runs.shard_work import Tally, Written, begin_drawing, run_tasks, write_drawn
from quasir.store import Rows
from quasir.store.context_store import ContextStore, Piece, between
from quasir.store.locations import Location, location_of
from quasir.store.manifest import Origin
from quasir.store.store import CONTEXT
from quasir.targets.product import Product

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["draw_shards", "drawn", "rows_of"]

CONTEXTS_AT_ONCE = 512
"""Contexts whose targets and proposals are in memory at once; each takes some 40 KB."""

Parts = Callable[[Entry], tuple[Product, Proposal]]
"""Returns the target and the proposal of a context."""


class Stretch(NamedTuple):
    """Rows of one block of a context."""

    entry: Entry
    block: int
    start: int
    stop: int


def _stretches(entries: Sequence[Entry], pieces: Sequence[Piece]) -> list[Stretch]:
    made = []
    for place, start, stop in pieces:
        for block in range(start // BLOCK, -(-stop // BLOCK)):
            first = block * BLOCK
            rows = max(start - first, 0), min(stop - first, BLOCK)
            made.append(Stretch(entries[place], block, *rows))
    return made


def drawn(
    parts: Parts, entries: Sequence[Entry], pieces: Sequence[Piece], check: bool = True
) -> list[Draws]:
    """Return the draws of some pieces, by their blocks.

    Draw i of a context depends on its seed and on i only, whatever is drawn beside it. With
    `check`, the first draws are scored again: log_prob must give what they were drawn with.
    """
    stretches = _stretches(entries, pieces)
    made = {s.entry.context.place: parts(s.entry) for s in stretches}
    pairs = [made[s.entry.context.place] for s in stretches]
    streams = [DrawStreams(s.entry.seed) for s in stretches]
    together = optional_attribute(pairs[0][1], "sample_together")
    found: list[Part] | None = None
    if together is not None:
        requests = [
            Request(stream.propose(s.block), s.start, s.stop)
            for s, stream in zip(stretches, streams, strict=True)
        ]
        found = together([proposal for _, proposal in pairs], requests)
    if found is None:
        return [
            RowMaker(*pair, stream, s.block * BLOCK + s.stop).rows(
                s.block, s.start, s.stop, check=check and s is stretches[0]
            )
            for pair, stream, s in zip(pairs, streams, stretches, strict=True)
        ]
    return [
        _scored(pair, stream, s, part, check=check and s is stretches[0])
        for pair, stream, s, part in zip(pairs, streams, stretches, found, strict=True)
    ]


def _scored(
    pair: tuple[Product, Proposal], stream: DrawStreams, stretch: Stretch, part: Part, check: bool
) -> Draws:
    """Score what was drawn together with the draws of other contexts."""
    target, proposal = pair
    log_q = check_log_scores(part.log_q, part.items, name_of(proposal), "log q")
    known = part.log_base if getattr(proposal, "base", None) is target.base else None
    log_base = log_q if proposal is target.base else known
    log_u = stream.log_u(stretch.block)[stretch.start : stretch.stop]
    whole = Part(part.items, log_q, log_base)
    return scored(target, proposal, whole, log_u=log_u, seed=stream.seed, check=check)


def rows_of(
    parts: Parts, entries: Sequence[Entry], pieces: Sequence[Piece], check: bool = True
) -> Rows:
    """Return the draws of some pieces as rows of a store, with their context and index."""
    rows = Draws.concatenate(drawn(parts, entries, pieces, check)).rows
    context = np.repeat([piece.context for piece in pieces], [p.stop - p.start for p in pieces])
    index = np.concatenate([np.arange(piece.start, piece.stop) for piece in pieces])
    columns = {CONTEXT: context.astype(np.int64), "index": index.astype(np.int64)}
    return Rows(columns | rows.columns, rows.items)


@dataclass(frozen=True, kw_only=True)
class ContextWork:
    """The work that is sent to a worker of an engine: it draws shards and writes them."""

    parts: ContextParts
    pieces: dict[int, list[Piece]]
    address: str
    origin: Origin

    what = "shard"

    def __call__(self) -> Work:
        """Load the models; return a function that draws and writes a shard."""
        maker, location = self.parts(), location_of(self.address)
        return _work(maker.parts, maker, self.parts.entries, self.pieces, location, self.origin)


def _work(
    parts: Parts,
    maker: Builder,
    entries: Sequence[Entry],
    pieces: dict[int, list[Piece]],
    location: Location,
    origin: Origin,
    tell: Callable[[int], None] = lambda drawn: None,
) -> Work:
    from quasir.store.shard_format import joined, table_of

    def work(task: Task) -> Written:
        every = pieces[task[0]]

        def make(start: int, stop: int) -> pa.Table:
            some, tables = between(every, start, stop), []
            for i in range(0, len(some), CONTEXTS_AT_ONCE):
                group = some[i : i + CONTEXTS_AT_ONCE]
                rows = rows_of(parts, entries, group, check=start == 0 and i == 0)
                tables.append(table_of(rows, 0))
                for piece in group:
                    maker.release(entries[piece.context].context)
            return joined(tables)

        at_once = rows_at_once(*parts(entries[every[0].context]))
        return write_drawn(make, task, location=location, origin=origin, at_once=at_once, tell=tell)

    return work


def draw_shards(
    store: ContextStore,
    entries: Sequence[Entry],
    maker: Builder,
    *,
    parts: Parts | None = None,
    progress: Progress = False,
    engine: Engine | None = None,
    sent: ContextParts | None = None,
) -> int:
    """Draw the shards that the rounds so far lack; return how many draws were made."""
    begin_drawing(store)
    lacking = store.lacking()
    tasks = [(number, store.size_of(number)) for number in lacking]
    pieces = {number: store.pieces[number] for number in lacking}
    tally = Tally(sum(size for _, size in tasks), progress_of(progress, "drawn"))
    here = _work(
        parts or maker.parts, maker, entries, pieces, store.location, store.origin, tally.within
    )
    make: Callable[[], Work] = lambda: here  # noqa: E731
    if sent is not None:
        make = ContextWork(
            parts=sent, pieces=pieces, address=store.location.address, origin=store.origin
        )
    return run_tasks(store, tasks, make, here, tally, engine, lambda: bool(store.lacking()))
