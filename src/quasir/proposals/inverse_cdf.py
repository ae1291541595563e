"""Drawing from a finite distribution by inverting its cumulative probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array

__all__ = ["InverseCdf"]

FEWEST, MOST = 2**12, 2**20
"""Buckets of the guide table: as many as there are places, within these limits."""
CROWDED = 4.0
"""Places in a bucket, on average, from which on a binary search is faster."""


class InverseCdf:
    """Finds, for each uniform u in [0, 1), the first place whose cumulative probability is above u.

    It is ``np.searchsorted(cumulative, u, side="right")`` by the guide table of Chen and Asau
    (1974): the bucket of u tells at which place to begin, and mostly that is the place itself.
    On fresh uniforms it takes half the time of the binary search, whose branches are random.

    Examples
    --------
    >>> InverseCdf(np.array([0.5, 0.75, 1.0]))(np.array([0.0, 0.5, 0.9]))
    array([0, 1, 2])
    """

    def __init__(self, cumulative: Array) -> None:
        # The last end is infinite: a sum that rounds to less than 1 must not lead past it.
        self._ends = np.append(np.asarray(cumulative, dtype=np.float64)[:-1], np.inf)
        places = len(self._ends)
        self._buckets = min(max(2 ** (places - 1).bit_length(), FEWEST), MOST)
        edges = np.arange(self._buckets + 1) / self._buckets
        begin = np.searchsorted(self._ends, edges, side="right")
        self._crowded = places / self._buckets > CROWDED
        self._begin = begin[:-1]

    def __call__(self, u: Array) -> NDArray[np.intp]:
        """Return the place that each uniform falls on."""
        if self._crowded:
            return np.searchsorted(self._ends, u, side="right")
        place: NDArray[np.intp] = self._begin[(u * self._buckets).astype(np.intp)]
        behind = self._ends[place] <= u
        while behind.any():
            place += behind
            behind = self._ends[place] <= u
        return place
