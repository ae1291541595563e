"""How often each n-gram occurs in each text, by sorting integers.

An n-gram is coded as the pair of its first n - 1 tokens, which have a code already, and its last
token. One sort of these codes and their places puts equal n-grams side by side, and those of one
text within them, so that every count is the length of a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quasir.metrics.text_codes import CodedTexts

__all__ = ["Counts", "count_ngrams", "in_order"]


@dataclass(frozen=True, eq=False)
class Counts:
    """The counts of all n-grams of one order: one entry for each n-gram and text it occurs in.

    Entries of one n-gram stand together, its texts in order.

    Attributes
    ----------
    text : array of int
        Which text.
    count : array of int
        How often the n-gram occurs there; at least 1.
    ngram : array of int
        Which n-gram: 0, 1, ... in order.
    first : array of int
        The first entry of each n-gram.
    """

    text: NDArray[np.int64]
    count: NDArray[np.int64]
    ngram: NDArray[np.int64]
    first: NDArray[np.int64]


def count_ngrams(texts: CodedTexts, n: int, shared: bool = False) -> Iterator[Counts]:
    """Give the counts of 1-grams, 2-grams, ..., n-grams.

    Parameters
    ----------
    texts : CodedTexts
    n : int
        The longest.
    shared : bool
        Whether, from the second order on, to leave out what goes on from an n-gram of one text
        alone: it is in that text alone too. For samples that differ this is most of the work.

    Examples
    --------
    >>> from quasir.metrics.text_codes import code
    >>> one, two = count_ngrams(code(["a b a", "b"]), 2)
    >>> one.text, one.count, one.ngram
    (array([0, 0, 1]), array([2, 1, 1]), array([0, 1, 1]))
    """
    # A -1 after each text shows where it ends.
    owner = np.repeat(np.arange(len(texts)), texts.lengths + 1)
    tokens = np.full(len(owner), -1)
    at = np.arange(len(texts.codes)) + np.repeat(np.arange(len(texts)), texts.lengths)
    tokens[at] = texts.codes
    vocabulary = int(texts.codes.max(initial=0)) + 1
    ngram = np.zeros(len(at), dtype=np.int64)
    for last in range(n):
        token = tokens[at + last]  # at is where each n-gram begins
        inside = token >= 0
        key, at = in_order((ngram * vocabulary + token)[inside], at[inside])
        text = owner[at]
        begins = _changes(key)
        ngram = np.cumsum(begins) - 1
        entry = np.flatnonzero(begins | _changes(text))
        counts = Counts(
            text=text[entry],
            count=np.diff(entry, append=len(at)),
            ngram=ngram[entry],
            first=np.flatnonzero(begins[entry]),
        )
        yield counts
        if shared:
            in_several = np.diff(counts.first, append=len(entry)) > 1
            kept = in_several[ngram]
            at, ngram = at[kept], ngram[kept]


def in_order(
    key: NDArray[np.int64], at: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return both sorted by key, and at the same key by place; none is below 0.

    Examples
    --------
    >>> in_order(np.array([5, 2, 5]), np.array([1, 7, 0]))
    (array([2, 5, 5]), array([7, 0, 1]))
    """
    bits = int(at.max(initial=0)).bit_length()
    if int(key.max(initial=0)).bit_length() + bits > 63:
        order = np.lexsort((at, key))
        return key[order], at[order]
    # Sorting the two as one number takes a quarter of the time that a stable argsort takes.
    both = np.sort(key << bits | at)
    return both >> bits, both & ((1 << bits) - 1)


def _changes(values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell where a value differs from the one before it; the first does."""
    changes = np.ones(len(values), dtype=bool)
    changes[1:] = values[1:] != values[:-1]
    return changes
