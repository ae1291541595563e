"""Draws of many contexts in one store: each shard holds pieces of several contexts.

The draws are made in rounds. A round gives every context a number of draws in all; its shards hold
the new ones, context after context. So the draws of a context come in their own order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quasir.core.files import is_file
from quasir.errors import StoreError
from quasir.store.manifest import MANIFEST
from quasir.store.store import CONTEXT, Rows, Store

CONTEXTS = "contexts.jsonl"
"""The table of contexts, in the folder of a run over them."""


class Piece(NamedTuple):
    """Draws of one context: those from `start` on, before `stop`."""

    context: int
    start: int
    stop: int


def between(pieces: Sequence[Piece], start: int, stop: int) -> list[Piece]:
    """Return the pieces of some rows: those from `start` on, before `stop`."""
    found, first = [], 0
    for context, low, high in pieces:
        a, b = max(start - first, 0), min(stop - first, high - low)
        if a < b:
            found.append(Piece(context, low + a, low + b))
        first += high - low
    return found


def layout(rounds: Sequence[Sequence[int]], size: int) -> list[list[Piece]]:
    """Return the pieces of each shard, of `size` draws at most."""
    shards: list[list[Piece]] = []
    before = [0] * len(rounds[0]) if rounds else []
    for totals in rounds:
        shard: list[Piece] = []
        room = size
        for context, (start, stop) in enumerate(zip(before, totals, strict=True)):
            while start < stop:
                end = min(stop, start + room)
                shard.append(Piece(context, start, end))
                room -= end - start
                start = end
                if room == 0:
                    shards.append(shard)
                    shard, room = [], size
        if shard:
            shards.append(shard)
        before = list(totals)
    return shards


class ContextStore(Store):
    """The draws of a run over contexts."""

    of_contexts = True

    @property
    def rounds(self) -> list[list[int]]:
        """The draws of each context in all, after each round."""
        return self.manifest.rounds or []

    @cached_property
    def pieces(self) -> list[list[Piece]]:
        """The pieces of each shard of the rounds so far."""
        return layout(self.rounds, self.shard_size)

    def add_round(self, totals: Sequence[int]) -> None:
        """Begin a round, after which each context has so many draws in all."""
        self.change(rounds=[*self.rounds, list(totals)])
        self.__dict__.pop("pieces", None)
        self.write_manifest()

    def draws_in(self, number: int, n: int = 0) -> int:
        """Return how many draws a shard has; the rounds say so, not n."""
        return sum(piece.stop - piece.start for piece in self.pieces[number])

    def missing(self, n: int = 0) -> list[int]:
        """Return the shards of the rounds so far that are not drawn; the rounds count, not n."""
        return [
            number
            for number in range(len(self.pieces))
            if number not in self.shards or self.shards[number].draws != self.draws_in(number)
        ]

    def _before_gap(self) -> range:
        missing = self.missing()
        return range(missing[0] if missing else len(self.pieces))

    def __len__(self) -> int:
        """Return the number of draws before the first gap."""
        return sum(self.draws_in(number) for number in self._before_gap())

    def numbers(self) -> range:
        """Return the numbers of the shards before the first gap."""
        numbers = self._before_gap()
        if not numbers:
            raise StoreError(f"{self.folder} holds no draws yet. {self.how_to_draw()}")
        return numbers

    def counts(self) -> NDArray[np.int64]:
        """Return the draws of each context before the first gap."""
        counts = np.zeros(len(self.rounds[0]) if self.rounds else 0, dtype=np.int64)
        for number in self._before_gap():
            for piece in self.pieces[number]:
                counts[piece.context] += piece.stop - piece.start
        return counts

    def contexts_of(self, numbers: Sequence[int]) -> NDArray[np.int64]:
        """Return the context of each row of some shards, by the rounds."""
        pieces = [piece for number in numbers for piece in self.pieces[number]]
        sizes = [piece.stop - piece.start for piece in pieces]
        return np.repeat(np.array([piece.context for piece in pieces], np.int64), sizes)

    def rows_with(self, numbers: Sequence[int], items: bool = True) -> Rows:
        """Return the rows of some shards; their context column must be that of the rounds."""
        rows = self._rows(numbers, items, check=True)
        context = rows.columns.pop(CONTEXT)
        if not np.array_equal(context, self.contexts_of(numbers)):
            raise StoreError(
                f"the contexts of the draws in {self.folder} are not those of its manifest: one of "
                f"them was edited. {self.how_to_draw('--repair')}"
            )
        return rows

    def _number_columns(self) -> list[str]:
        return [*super()._number_columns(), CONTEXT]


def is_context_run(folder: Path) -> bool:
    """Return whether a folder holds a run over contexts."""
    return is_file(folder / MANIFEST) and is_file(folder / CONTEXTS)


def open_store(folder: Path) -> Store:
    """Open the draws of a run, over contexts or not; no shard is read yet."""
    return (ContextStore if is_context_run(folder) else Store).open(folder)
