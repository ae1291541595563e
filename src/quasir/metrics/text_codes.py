"""Texts as integers: each word or each character has a code."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import show
from quasir.core.items import Coded, as_items, offsets_of, text_of
from quasir.core.types import Items
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.samplers.results import SampleSet

__all__ = ["CodedTexts", "Unit", "code", "items_of", "texts_of"]

Unit = Literal["word", "character"]


@dataclass(frozen=True, eq=False)
class CodedTexts:
    """Texts as one array of codes; text i is ``codes[offsets[i]:offsets[i + 1]]``."""

    codes: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of words or characters in each text."""
        return np.diff(self.offsets)


def code(items: Items, unit: Unit = "word") -> CodedTexts:
    """Return texts as codes: equal words (split at whitespace) or characters have equal codes.

    Examples
    --------
    >>> coded = code(["a b a", "b"])
    >>> coded.codes, coded.lengths
    (array([0, 1, 0, 1]), array([3, 1]))
    """
    texts = texts_of(items)
    if isinstance(unit, str) and unit == "word":
        lengths: list[int] = []
        # A new word gets the number of words so far; this runs in C, not in a Python loop.
        codes: defaultdict[str, int] = defaultdict()
        codes.default_factory = codes.__len__
        every = map(codes.__getitem__, chain.from_iterable(_words(texts, lengths)))
        flat = np.fromiter(every, np.int64)  # fills `lengths`, too
        return CodedTexts(flat, offsets_of(lengths))
    if isinstance(unit, str) and unit == "character":
        points = "".join(texts).encode("utf-32-le", "surrogatepass")
        characters = np.frombuffer(points, dtype="<u4")
        used = np.zeros(int(characters.max(initial=0)) + 1, dtype=bool)
        used[characters] = True
        # Codes without gaps keep the codes of n-grams small.
        return CodedTexts(
            (np.cumsum(used) - 1)[characters], offsets_of([len(text) for text in texts])
        )
    raise InputError(f"unit is {show(unit)}, but must be 'word' or 'character'.")


def _words(texts: list[str], lengths: list[int]) -> Iterator[list[str]]:
    """Split one text after the other and note its length; only one text's words are in memory."""
    for text in texts:
        words = text.split()
        lengths.append(len(words))
        yield words


def texts_of(items: Items) -> list[str]:
    """Return the text of each item, as `quasir.core.items.text_of` has it."""
    # A list is read directly: to pack and unpack it would take longer than to split its texts.
    column = items if isinstance(items, (list, tuple)) else items_of(items)
    if isinstance(column, Coded):
        support = [text_of(item) for item in column.support]
        return [support[i] for i in column.codes.tolist()]
    return [text_of(item) for item in column]


def items_of(items: Any) -> Items:
    """Return a column of items: those given, or those of samples or draws."""
    if not isinstance(items, (SampleSet, Draws)):
        return as_items(items)
    if items.items is None:
        raise InputError("these draws have no items: make them with items=, or with qr.draw.")
    return items.items
