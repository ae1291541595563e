"""What is measured on the samples of one run: the columns of the paper's tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.certificates.certificate import Certificate
from quasir.core.items import Coded
from quasir.core.types import Array, Items
from quasir.estimation.estimate import Estimate
from quasir.estimation.quantities import Key, Moment
from quasir.metrics import perplexity, self_bleu, unique_share

__all__ = ["BLEU", "Measured", "measure", "perplexity_of"]

BLEU = 5
"""Longest n-grams of Self-BLEU, as in the paper's tables."""


@dataclass(frozen=True)
class Measured:
    """The numbers of one run, NaN where one is unknown.

    Attributes
    ----------
    numbers : dict
        ``draws_a_sample``, `Moment` of each feature, ``ppl``, ``self_bleu``, ``unique``.
    distances : dict of Estimate
        ``tvd`` and ``kl``, empty where they are unknown.
    doubts : tuple of str
    """

    numbers: dict[Key, float]
    distances: dict[str, Estimate] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()


def measure(
    items: Items,
    features: Mapping[str, NDArray[Any]],
    proposals: float,
    ppl: float,
    certificate: Certificate | None = None,
    doubts: tuple[str, ...] = (),
) -> Measured:
    """Measure one run's samples.

    Parameters
    ----------
    items : column of items
    features : dict of arrays
        A column for each feature.
    proposals : float
        Proposals that the samples took.
    ppl : float
        Their perplexity under the base, NaN where it is not known.
    certificate : Certificate, optional
        Has TVD and KL of the samples' law to p, where these can be estimated.
    doubts : tuple of str

    Examples
    --------
    >>> measured = measure(["a b", "a b", "c d"], {"long": np.array([True, True, False])}, 30, 2.5)
    >>> {str(key): round(value, 3) for key, value in measured.numbers.items()}
    {'draws_a_sample': 10.0, 'moment:long': 0.667, 'ppl': 2.5, 'self_bleu': 0.167, 'unique': 0.667}
    """
    n = len(items)
    numbers: dict[Key, float] = {"draws_a_sample": proposals / n}
    for name, column in features.items():
        numbers[Moment(name)] = float(np.asarray(column, np.float64).mean())
    numbers["ppl"] = ppl
    numbers["self_bleu"] = self_bleu(items, BLEU) if n > 1 and _has_words(items) else math.nan
    numbers["unique"] = unique_share(items)
    distances = {} if certificate is None else {"tvd": certificate.tvd, "kl": certificate.kl}
    return Measured(numbers, distances, doubts)


def perplexity_of(items: Items, log_base: Array | None, tokens: NDArray[np.int64] | None) -> float:
    """Return the perplexity of stored draws, NaN where the base has not scored them all.

    Examples
    --------
    >>> round(perplexity_of(["a", "b"], np.log([0.5, 0.125]), np.array([1, 3])), 12)
    2.0
    """
    if log_base is None or tokens is None or not np.isfinite(log_base).all():
        return math.nan
    return perplexity(items, _Scored(log_base), tokens)


class _Scored:
    """A base whose scores are stored."""

    def __init__(self, log_base: Array) -> None:
        self.log_base = log_base

    def log_prob(self, items: Items) -> Array:
        """Return the stored scores."""
        return self.log_base


def _has_words(items: Items) -> bool:
    """Return whether items are texts: Self-BLEU is defined for no others."""
    if isinstance(items, Coded):
        return all(isinstance(item, str) for item in items.support)
    return hasattr(items[0], "text") or isinstance(items[0], str)
