"""A distribution over finitely many items, given as a table."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import check_request, number
from quasir.core.formatting import short_repr
from quasir.core.items import Coded, as_items, check_items, take
from quasir.core.types import Array, Batch, Items
from quasir.errors import InputError

FEWEST, MOST = 2**12, 2**20
"""Buckets of the guide table: as many as there are indices, within these limits."""
CROWDED = 4.0  # indices in a bucket, on average, from which on a binary search is faster


class Table:
    """A finite distribution: item -> probability, or any weight above 0.

    It is a target (`log_score` keeps the weights as they are) and a proposal (`sample` and
    `log_prob` normalise them). Items that are not in the table have probability 0.

    Parameters
    ----------
    weights : mapping
        From hashable items to weights >= 0, at least one above 0.

    Examples
    --------
    >>> coin = Table({"heads": 3, "tails": 1})
    >>> coin.log_score(["tails"]), np.exp(coin.log_prob(["tails", "edge"]))
    (array([0.]), array([0.25, 0.  ]))
    """

    prefix_stable = True
    density = False

    def __init__(self, weights: Mapping[Any, float]) -> None:
        if not isinstance(weights, Mapping):
            raise InputError(
                f"a table is made of a {type(weights).__name__}, but must be made of a dictionary "
                "from items to weights, as in Table({'heads': 1, 'tails': 1})."
            )
        for item, weight in weights.items():
            if not 0 <= number(f"the weight of {short_repr(item)}", weight) < math.inf:
                raise InputError(
                    f"the weight of {short_repr(item)} is {short_repr(weight)}; a weight is a "
                    "finite number >= 0."
                )
        values = np.array([float(weight) for weight in weights.values()], dtype=np.float64)
        with np.errstate(over="ignore"):
            total = float(values.sum())
        if not 0 < total < math.inf:
            raise InputError(
                "the table is empty, or all its weights are 0, or no float is their sum."
            )
        keys = list(weights)
        column = as_items(keys)
        integers = isinstance(column, np.ndarray) and column.dtype.kind in "iu"
        self._index: dict[Hashable, int] = {item: i for i, item in enumerate(keys)}
        self.support: Items = column if integers else Coded(tuple(keys), np.arange(len(keys)))
        with np.errstate(divide="ignore"):
            self._log_weight = np.log(values)
        self._log_total = math.log(total)
        cumulative = np.cumsum(values)
        cumulative /= cumulative[-1]
        # Rounding must not leave room above the last item that can be drawn.
        cumulative[np.flatnonzero(values)[-1] :] = 1.0
        self._invert = InverseCdf(cumulative)

    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """Draw n items, with one uniform each."""
        n = check_request(n, rng)
        codes = self._invert(rng.random(n))
        return Batch(take(self.support, codes), self._log_weight[codes] - self._log_total)

    @property
    def log_z(self) -> float:
        """The log of the sum of the weights."""
        return self._log_total

    def log_score(self, items: Items) -> Array:
        """Return the log of each item's weight; -inf if that is 0 or absent."""
        check_items(items)
        if isinstance(items, Coded):
            indices = self._indices(items.support)[items.codes]
        else:
            indices = self._indices(items)
        return np.where(indices >= 0, self._log_weight[indices], -np.inf)

    def log_prob(self, items: Items) -> Array:
        """Return the log of each item's probability."""
        return self.log_score(items) - self._log_total

    def _indices(self, items: Items) -> NDArray[np.intp]:
        if isinstance(items, np.ndarray) and items.dtype.kind in "iu":
            distinct, inverse = np.unique(items, return_inverse=True)
            indices = [self._index.get(item, -1) for item in distinct.tolist()]
            return np.array(indices, dtype=np.intp)[inverse]
        if items is getattr(self.support, "support", None):
            return np.arange(len(self._log_weight))
        try:
            return np.array([self._index.get(item, -1) for item in items], dtype=np.intp)
        except TypeError as error:
            raise InputError(
                f"items of a table must be hashable, unlike {short_repr(items[0])} ({error})."
            ) from error

    def __repr__(self) -> str:
        return f"<Table of {len(self._log_weight)} items>"


class InverseCdf:
    """Finds, for each uniform u in [0, 1), the first index whose cumulative probability is above u.

    It is ``np.searchsorted(cumulative, u, side="right")`` by the guide table of Chen and Asau
    (1974), in half the time: the bucket of u tells at which index to begin.
    """

    def __init__(self, cumulative: Array) -> None:
        # The last end is infinite: a sum that rounds to less than 1 must not lead past it.
        self._ends = np.append(np.asarray(cumulative, dtype=np.float64)[:-1], np.inf)
        size = len(self._ends)
        self._buckets = min(max(2 ** (size - 1).bit_length(), FEWEST), MOST)
        edges = np.arange(self._buckets + 1) / self._buckets
        begin = np.searchsorted(self._ends, edges, side="right")
        self._crowded = size / self._buckets > CROWDED
        self._begin = begin[:-1]

    def __call__(self, u: Array) -> NDArray[np.intp]:
        """Return the index that each uniform falls on."""
        if self._crowded:
            return np.searchsorted(self._ends, u, side="right")
        index: NDArray[np.intp] = self._begin[(u * self._buckets).astype(np.intp)]
        behind = self._ends[index] <= u
        while behind.any():
            index += behind
            behind = self._ends[index] <= u
        return index
