"""Self-BLEU (Zhu et al. 2018, Texygen; appendix G of the paper): how similar samples are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import check_count
from quasir.core.types import Array, Items
from quasir.errors import InputError
from quasir.metrics.ngrams import Counts, count_ngrams
from quasir.metrics.text_codes import Unit, code

__all__ = ["bleu_of_each", "closest_length", "self_bleu"]

EPSILON = 0.1
"""The numerator of a precision if no n-gram matches: Chen and Cherry (2014), method 1."""


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
    sort. The count of an n-gram is clipped at its highest count in any other text. That is the
    highest count of all; for a text that alone has the highest, it is the second highest.

    Examples
    --------
    >>> round(self_bleu(["the cat sat down", "the cat sat up", "a dog ran off"], n=2), 4)
    0.4714
    """
    return float(bleu_of_each(texts, n, unit).mean())


def bleu_of_each(texts: Items, n: int = 5, unit: Unit = "word") -> Array:
    """Return the BLEU-n of each text against all the others."""
    check_count("n", n)
    coded = code(texts, unit)
    if len(coded) < 2:
        raise InputError(
            f"Self-BLEU compares each text with the others, but there is {len(coded)}: "
            "give at least two texts."
        )
    lengths = coded.lengths
    log_precision = np.zeros(len(coded))
    matches_any = np.zeros(len(coded), dtype=bool)
    # No text has n-grams of more tokens than the longest text: all their precisions are EPSILON.
    longest = min(n, max(int(lengths.max()), 1))
    log_precision += (n - longest) * np.log(EPSILON)
    for order, counts in enumerate(count_ngrams(coded, longest, shared=True), start=1):
        clipped = np.minimum(counts.count, best_elsewhere(counts))
        matches = np.bincount(counts.text, clipped, minlength=len(coded))
        if order == 1:
            matches_any = matches > 0
        # A text with fewer tokens than the order has no n-gram; its denominator is still 1.
        total = np.maximum(lengths - order + 1, 1)
        log_precision += np.log(np.where(matches > 0, matches, EPSILON) / total)
    penalty = brevity_penalty(lengths, closest_length(lengths))
    return np.where(matches_any, penalty * np.exp(log_precision / n), 0.0)


def best_elsewhere(counts: Counts) -> NDArray[np.int64]:
    """Return, for each n-gram and text, the highest count of the n-gram in another text."""
    if len(counts.count) == 0:
        return counts.count
    highest = np.maximum.reduceat(counts.count, counts.first)[counts.ngram]
    has_it = counts.count == highest
    second = np.maximum.reduceat(np.where(has_it, 0, counts.count), counts.first)[counts.ngram]
    alone = np.add.reduceat(has_it.astype(np.int64), counts.first)[counts.ngram] == 1
    return np.where(has_it & alone, second, highest)


def closest_length(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for each text, the closest length of another text; of two, the shorter.

    Examples
    --------
    >>> closest_length(np.array([7, 2, 5, 3]))
    array([5, 3, 3, 2])
    """
    order = np.argsort(lengths, kind="stable")
    ranked = lengths[order]
    gap = np.diff(ranked)
    far = np.iinfo(np.int64).max
    shorter, longer = np.concatenate([[far], gap]), np.concatenate([gap, [far]])
    closest = np.empty_like(lengths)
    closest[order] = np.where(shorter <= longer, ranked - shorter, ranked + longer)
    return closest


def brevity_penalty(lengths: NDArray[np.int64], closest: NDArray[np.int64]) -> Array:
    """Return exp(1 - r/c) for a text of c tokens below the closest length r, else 1."""
    # An empty text matches nothing and scores 0, whatever its penalty is.
    return np.exp(np.minimum(1 - closest / np.maximum(lengths, 1), 0.0))
