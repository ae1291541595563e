"""The texts that the page shows: at every beta, the first accepted ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.items import concatenate
from quasir.core.types import Array
from quasir.draws.draws import Draws
from quasir.features import Feature, text_of
from quasir.report.sentences import beta_text
from quasir.store import Store

Piece = tuple[str, tuple[int, ...]]
"""A piece of text, and the indices of the features whose places cover it."""
SHOWN = 20  # accepted draws that are shown at each beta
AT_ONCE = 800  # a longer text is folded: its beginning is shown, and a click shows the rest
BEGINNING = 600  # characters of a folded text that are shown at once
MOST_CHARACTERS = 20_000  # a longer text is cut, and the page says so
FOLDED = 1_000_000  # characters of all folded parts together, at most, so that the page stays small


def first_accepted(log_alpha: Array, log_betas: Array, shown: int = SHOWN) -> NDArray[np.intp]:
    """Return the draws among the first accepted at any beta: there, i.i.d. from p_beta."""
    left, alphas, found = np.arange(len(log_alpha)), log_alpha, []
    # The accepted sets are nested, so each is searched within the one before.
    for log_beta in np.sort(log_betas):
        keep = alphas > log_beta
        left, alphas = left[keep], alphas[keep]
        found.append(left[:shown])
    return np.unique(np.concatenate(found))


@dataclass(frozen=True, eq=False)
class AcceptedDraws:
    """How many draws are accepted at each beta, and the first of them."""

    survivors: list[int]  # draws with alpha > beta, at each of the betas
    draws: Draws  # those of `first_accepted`, with their items
    index: NDArray[np.intp]  # their indices in the run

    @classmethod
    def of(cls, source: Draws | Store, log_betas: Array) -> AcceptedDraws:
        """Look through draws in memory, or shard by shard through those on disk."""
        survivors = np.zeros(len(log_betas), np.int64)
        parts, indices, items = [], [], []
        for first, draws in _parts(source):
            log_alpha = draws.log_alpha
            # Where enough were accepted before, none of these is among the first.
            wanted = log_betas[survivors < SHOWN]
            rows = first_accepted(log_alpha, wanted) if len(wanted) else np.empty(0, np.intp)
            alphas = np.sort(log_alpha)
            survivors += len(alphas) - np.searchsorted(alphas, log_betas, side="right")
            parts.append(draws.take(rows))
            indices.append(first + rows)
            if isinstance(source, Store) and len(rows):
                items.append(source.items_of(first // source.shard_size, rows))
        found, index = Draws.concatenate(parts), np.concatenate(indices)
        if isinstance(source, Store):
            kept = all(part is not None for part in items)
            found = replace(found, items=(concatenate(items) if items else []) if kept else None)
        shown = first_accepted(found.log_alpha, log_betas)
        return cls(survivors.tolist(), found.take(shown), index[shown])


def _parts(source: Draws | Store) -> Iterator[tuple[int, Draws]]:
    """Yield draws, and the index of the first of them; those on disk come without items."""
    if isinstance(source, Draws):
        yield 0, source
        return
    for number in source.numbers():
        yield number * source.shard_size, Draws.of_shard(source, number, items=False)


def shown_texts(accepted: AcceptedDraws, features: Sequence[Feature]) -> list[dict[str, Any]]:
    """Return the texts that were accepted first, cut into pieces by the features of their words."""
    draws, left, shown = accepted.draws, FOLDED, []
    if draws.items is None:
        return []
    for i, alpha in enumerate(draws.log_alpha.tolist()):
        marked = _marked(draws, i, features, left)
        left -= marked.pop("folded")
        own = {"draw": int(accepted.index[i]), "log_alpha": alpha, "until": beta_text(alpha)}
        shown.append({**own, **marked})
    return shown


def _marked(draws: Draws, i: int, features: Sequence[Feature], room: int) -> dict[str, Any]:
    """Return the pieces shown at once, those folded, and how many characters were cut."""
    text = text_of(draws.items[i])
    places = []  # to colour; none where a feature is false for this text
    for feature in features:
        column = draws.features.get(feature.name)
        silent = column is not None and column.dtype == bool and not column[i]
        places.append([] if feature.spans is None or silent else feature.spans(text))
    first = len(text) if len(text) <= AT_ONCE else BEGINNING
    last = max(first, min(len(text), MOST_CHARACTERS, first + room))

    def between(start: int, end: int) -> list[Any]:
        moved = [[(a - start, b - start) for a, b in spans] for spans in places]
        return [[piece, *on] if on else piece for piece, on in pieces(text[start:end], moved)]

    return {
        "pieces": between(0, first),
        "rest": between(first, last) if last > first else [],
        "folded": last - first,
        "more": len(text) - last,
    }


def pieces(text: str, places: Sequence[Sequence[tuple[int, int]]]) -> list[Piece]:
    """Cut a text where a place begins or ends; joined, the pieces are the text again."""
    cuts = {0, len(text)}
    for spans in places:
        cuts.update(min(max(end, 0), len(text)) for span in spans for end in span)
    out: list[Piece] = []
    for start, end in pairwise(sorted(cuts)):
        on = tuple(
            j
            for j, spans in enumerate(places)
            if any(first <= start and end <= last for first, last in spans)
        )
        if out and out[-1][1] == on:
            out[-1] = (out[-1][0] + text[start:end], on)
        else:
            out.append((text[start:end], on))
    return out
