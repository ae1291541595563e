"""The share of different samples, and of different n-grams among them."""

from __future__ import annotations

import numpy as np

from quasir.core.arguments import check_count
from quasir.core.types import Items
from quasir.errors import InputError
from quasir.metrics.ngrams import count_ngrams
from quasir.metrics.text_codes import Unit, code, items_of, texts_of

__all__ = ["distinct", "unique_share"]


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
    coded = code(texts, unit)
    if coded.lengths.max(initial=0) < n:
        raise InputError(
            f"none of the {len(coded)} texts has {n} {unit}{'s' * (n > 1)}, so the share of "
            "different n-grams is 0/0: give longer texts or a smaller n."
        )
    *_, counts = count_ngrams(coded, n)
    total = int(counts.count.sum())
    return len(counts.first) / total


def unique_share(texts: Items) -> float:
    """Return the number of different samples divided by the number of samples.

    Samples are equal if their texts are; arrays of numbers are compared as numbers.

    Examples
    --------
    >>> unique_share(["a", "b", "a", "a"])
    0.5
    """
    items = items_of(texts)
    if len(items) == 0:
        raise InputError("there are no samples, so no share of them is unique: give at least one.")
    if isinstance(items, np.ndarray) and items.dtype.kind in "biuf":
        return len(np.unique(items, axis=0)) / len(items)
    return len(set(texts_of(items))) / len(items)
