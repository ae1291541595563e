"""How different samples are: Self-BLEU (Zhu et al. 2018; appendix G), Distinct-n, unique texts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import check_count
from quasir.core.formatting import short_repr
from quasir.core.items import Coded, text_of
from quasir.core.types import Array, Items
from quasir.errors import InputError
from quasir.metrics.moments import item_column

__all__ = ["distinct", "self_bleu", "unique_share"]

Unit = Literal["word", "character"]
Codes = NDArray[np.int64]
EPSILON = 0.1  # the numerator of a precision if no n-gram matches: Chen and Cherry (2014), method 1


def self_bleu(texts: Items, n: int = 5, unit: Unit = "word") -> float:
    """Return the mean BLEU-n of each text against all the others: the lower, the more diverse.

    Parameters
    ----------
    texts : items
        Strings, texts of a language model, samples or draws: at least two.
    n : int
        The longest n-grams counted; all orders have the same weight.
    unit : {"word", "character"}
        The tokens of n-grams: words separated by whitespace, or characters. Published figures
        that were computed on raw strings are over characters; the two are not comparable.

    Notes
    -----
    The result equals the mean over the texts of NLTK's ``sentence_bleu(all others, text,
    weights=(1/n,) * n, smoothing_function=SmoothingFunction().method1)``, but takes the time of a
    sort.

    Examples
    --------
    >>> round(self_bleu(["the cat sat down", "the cat sat up", "a dog ran off"], n=2), 4)
    0.4714
    """
    return float(bleu_of_each(texts, n, unit).mean())


def distinct(texts: Items, n: int = 1, unit: Unit = "word") -> float:
    """Return Distinct-n (Li et al. 2016): the share of different n-grams in all texts together.

    Parameters
    ----------
    texts : items
    n : int
    unit : {"word", "character"}
        The tokens of n-grams, as in `self_bleu`.

    Notes
    -----
    It falls as texts are added: compare only sets of the same size.

    Examples
    --------
    >>> distinct(["a b", "a c"]), distinct(["a b", "a c"], n=2)
    (0.75, 1.0)
    """
    check_count("n", n)
    codes, lengths = code(texts, unit)
    if lengths.max(initial=0) < n:
        raise InputError(
            f"none of the {len(lengths)} texts has {n} {unit}{'s' * (n > 1)}, so the share of "
            "different n-grams is 0/0: give longer texts or a smaller n."
        )
    *_, counts = count_ngrams(codes, lengths, n)
    return len(counts.first) / int(counts.count.sum())


def unique_share(texts: Items) -> float:
    """Return the number of different samples divided by the number of samples.

    Samples are equal if their texts are; arrays of numbers are compared as numbers.

    Examples
    --------
    >>> unique_share(["a", "b", "a", "a"])
    0.5
    """
    items = item_column(texts)
    if len(items) == 0:
        raise InputError("there are no samples, so no share of them is unique: give at least one.")
    if isinstance(items, np.ndarray) and items.dtype.kind in "biuf":
        return len(np.unique(items, axis=0)) / len(items)
    return len(set(read_texts(items))) / len(items)


def bleu_of_each(texts: Items, n: int = 5, unit: Unit = "word") -> Array:
    check_count("n", n)
    codes, lengths = code(texts, unit)
    if len(lengths) < 2:
        raise InputError(f"Self-BLEU compares at least two texts, but there is {len(lengths)}.")
    log_precision = np.zeros(len(lengths))
    matches_any = np.zeros(len(lengths), dtype=bool)
    # No text has n-grams of more tokens than the longest text: all their precisions are EPSILON.
    longest = min(n, max(int(lengths.max()), 1))
    log_precision += (n - longest) * np.log(EPSILON)
    for order, counts in enumerate(count_ngrams(codes, lengths, longest, shared=True), start=1):
        clipped = np.minimum(counts.count, _best_elsewhere(counts))
        matches = np.bincount(counts.text, clipped, minlength=len(lengths))
        if order == 1:
            matches_any = matches > 0
        # A text with fewer tokens than the order has no n-gram; its denominator is still 1.
        total = np.maximum(lengths - order + 1, 1)
        log_precision += np.log(np.where(matches > 0, matches, EPSILON) / total)
    # exp(1 - r/c) for a text of c tokens below the closest length r, else 1. An empty text matches
    # nothing and scores 0, whatever its penalty is.
    penalty = np.exp(np.minimum(1 - closest_length(lengths) / np.maximum(lengths, 1), 0.0))
    return np.where(matches_any, penalty * np.exp(log_precision / n), 0.0)


def _best_elsewhere(counts: Counts) -> Codes:
    """Return, for each n-gram and text, the highest count of the n-gram in another text."""
    if len(counts.count) == 0:
        return counts.count
    highest = np.maximum.reduceat(counts.count, counts.first)[counts.ngram]
    has_it = counts.count == highest
    second = np.maximum.reduceat(np.where(has_it, 0, counts.count), counts.first)[counts.ngram]
    alone = np.add.reduceat(has_it.astype(np.int64), counts.first)[counts.ngram] == 1
    return np.where(has_it & alone, second, highest)


def closest_length(lengths: Codes) -> Codes:
    """Return, for each text, the closest length of another text; of two, the shorter."""
    order = np.argsort(lengths, kind="stable")
    ranked = lengths[order]
    gap = np.diff(ranked)
    far = np.iinfo(np.int64).max
    shorter, longer = np.concatenate([[far], gap]), np.concatenate([gap, [far]])
    closest = np.empty_like(lengths)
    closest[order] = np.where(shorter <= longer, ranked - shorter, ranked + longer)
    return closest


@dataclass(frozen=True, eq=False)
class Counts:
    """The counts of all n-grams of one order: one entry for each n-gram and text it occurs in."""

    text: Codes  # its index; the entries of an n-gram are adjacent, in this order
    count: Codes
    ngram: Codes  # the number of the n-gram
    first: Codes  # the index of the first entry of each n-gram


def count_ngrams(codes: Codes, lengths: Codes, n: int, shared: bool = False) -> Iterator[Counts]:
    """Yield the counts of 1-grams, 2-grams, ..., n-grams, by sorting integers.

    One sort of the n-grams' codes and their places makes every count the length of a run of equal
    numbers. `shared` skips extensions of n-grams that occur in one text only.
    """
    # A -1 marks the end of each text.
    owner = np.repeat(np.arange(len(lengths)), lengths + 1)
    tokens = np.full(len(owner), -1)
    at = np.arange(len(codes)) + np.repeat(np.arange(len(lengths)), lengths)
    tokens[at] = codes
    vocabulary = int(codes.max(initial=0)) + 1
    ngram = np.zeros(len(at), dtype=np.int64)
    for last in range(n):
        token = tokens[at + last]  # at is where each n-gram begins
        inside = token >= 0
        key, at = sort_pairs((ngram * vocabulary + token)[inside], at[inside])
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


def sort_pairs(key: Codes, at: Codes) -> tuple[Codes, Codes]:
    """Return both arrays sorted by key, then by place; no entry may be negative."""
    bits = int(at.max(initial=0)).bit_length()
    if int(key.max(initial=0)).bit_length() + bits > 63:
        order = np.lexsort((at, key))
        return key[order], at[order]
    # Sorting the two as one number takes a quarter of the time that a stable argsort takes.
    both = np.sort(key << bits | at)
    return both >> bits, both & ((1 << bits) - 1)


def _changes(values: Codes) -> NDArray[np.bool_]:
    """Return where a value differs from the one before it; True for the first."""
    changes = np.ones(len(values), dtype=bool)
    changes[1:] = values[1:] != values[:-1]
    return changes


def code(items: Items, unit: Unit = "word") -> tuple[Codes, Codes]:
    """Return the words or characters of texts as codes, and how many codes each text has."""
    texts = read_texts(items)
    if not isinstance(unit, str) or unit not in ("word", "character"):
        raise InputError(f"unit is {short_repr(unit)}, but must be 'word' or 'character'.")
    if unit == "character":
        points = "".join(texts).encode("utf-32-le", "surrogatepass")
        characters = np.frombuffer(points, dtype="<u4")
        used = np.zeros(int(characters.max(initial=0)) + 1, dtype=bool)
        used[characters] = True
        # Codes without gaps keep the codes of n-grams small.
        return (np.cumsum(used) - 1)[characters], np.array([len(t) for t in texts], np.int64)
    lengths: list[int] = []

    def words() -> Iterator[list[str]]:
        """Split one text after the other: only one text's words are in memory."""
        for text in texts:
            words = text.split()
            lengths.append(len(words))
            yield words

    # A new word gets the number of words so far; this runs in C, not in a Python loop.
    codes: defaultdict[str, int] = defaultdict()
    codes.default_factory = codes.__len__
    flat = np.fromiter(map(codes.__getitem__, chain.from_iterable(words())), np.int64)
    return flat, np.array(lengths, np.int64)


def read_texts(items: Items) -> list[str]:
    # A list is read directly: to pack and unpack it would take longer than to split its texts.
    column = items if isinstance(items, (list, tuple)) else item_column(items)
    if isinstance(column, Coded):
        support = [text_of(item) for item in column.support]
        return [support[i] for i in column.codes.tolist()]
    return [text_of(item) for item in column]
