"""A distribution over finitely many items, given as a table."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.items import Coded
from quasir.core.types import Array, Batch, Items
from quasir.errors import InputError
from quasir.proposals.inverse_cdf import InverseCdf

__all__ = ["Table"]


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

    def __init__(self, weights: Mapping[Any, float]) -> None:
        if not weights:
            raise InputError("the table is empty: give at least one item and its weight.")
        for item, weight in weights.items():
            if not (isinstance(weight, (int, float, np.number)) and 0 <= weight < math.inf):
                raise InputError(
                    f"the weight of {item!r} is {weight!r}; a weight is a finite number >= 0."
                )
        values = np.array(list(weights.values()), dtype=np.float64)
        if not values.any():
            raise InputError("all weights of the table are 0: give one item a weight above 0.")
        keys = list(weights)
        integers = all(isinstance(k, (int, np.integer)) and not isinstance(k, bool) for k in keys)
        self._place: dict[Hashable, int] = {item: i for i, item in enumerate(keys)}
        self.support: Items = (
            np.array(keys) if integers else Coded(tuple(keys), np.arange(len(keys)))
        )
        with np.errstate(divide="ignore"):
            self._log_weight = np.log(values)
        total = float(values.sum())
        self._log_total = math.log(total)
        cumulative = np.cumsum(values)
        cumulative /= cumulative[-1]
        # Rounding must not leave room above the last item that can be drawn.
        cumulative[np.flatnonzero(values)[-1] :] = 1.0
        self._invert = InverseCdf(cumulative)

    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """Draw n items, with one uniform each."""
        codes = self._invert(rng.random(n))
        items = (
            self.support[codes]
            if isinstance(self.support, np.ndarray)
            else self.support.take(codes)
        )
        return Batch(items, self._log_weight[codes] - self._log_total)

    def log_score(self, items: Items) -> Array:
        """Return the log of each item's weight; -inf if that is 0 or absent."""
        if isinstance(items, Coded):
            places = self._places(items.support)[items.codes]
        else:
            places = self._places(items)
        return np.where(places >= 0, self._log_weight[places], -np.inf)

    def log_prob(self, items: Items) -> Array:
        """Return the log of each item's probability."""
        return self.log_score(items) - self._log_total

    def _places(self, items: Items) -> NDArray[np.intp]:
        if isinstance(items, np.ndarray) and items.dtype.kind in "iu":
            distinct, inverse = np.unique(items, return_inverse=True)
            places = [self._place.get(item, -1) for item in distinct.tolist()]
            return np.array(places, dtype=np.intp)[inverse]
        if items is getattr(self.support, "support", None):
            return np.arange(len(self._log_weight))
        return np.array([self._place.get(item, -1) for item in items], dtype=np.intp)

    def __repr__(self) -> str:
        return f"<Table of {len(self._log_weight)} items>"
