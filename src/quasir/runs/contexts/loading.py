"""Draws of a run over contexts, taken apart by context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.runs.contexts.table import Entry
from quasir.store.context_store import ContextStore

__all__ = ["draws_by_context", "draws_of"]


def draws_by_context(
    store: ContextStore, entries: Sequence[Entry], items: bool = True
) -> dict[int, Draws]:
    """Return the draws of each context that has any, in the order of the contexts."""
    numbers = store.numbers()
    context = store.contexts_of(numbers)
    rows = store.rows_with(numbers, items)
    every = Draws.from_rows(rows)
    order = np.argsort(context, kind="stable")
    places, starts = np.unique(context[order], return_index=True)
    ends = [*starts[1:], len(order)]
    return {
        int(place): _of(every, order[start:end], entries[place])
        for place, start, end in zip(places, starts, ends, strict=True)
    }


def draws_of(store: ContextStore, entry: Entry, items: bool = True) -> Draws:
    """Return the draws of one context; only the shards that hold it are read."""
    place = entry.context.place
    numbers = [
        number
        for number in store.numbers()
        if any(p.context == place for p in store.pieces[number])
    ]
    if not numbers:
        why = "" if entry.failed is None else f": {entry.failed}"
        raise InputError(f"context {place} of {store.folder} has no draws{why}")
    own = np.flatnonzero(store.contexts_of(numbers) == place)
    return _of(Draws.from_rows(store.rows_with(numbers, items)), own, entry)


def _of(every: Draws, own: np.ndarray[tuple[int], np.dtype[np.intp]], entry: Entry) -> Draws:
    return replace(
        every.take(own),
        seed=entry.seed,
        warnings=entry.warnings,
        known=entry.known,
        base_check=entry.base_check,
    )
