"""A proposal to copy: the number of failures before the first success."""

from __future__ import annotations

import numpy as np

from quasir.core.types import Array, Batch, Items


class Geometric:
    """q(k) = (1 - success)^k success for k = 0, 1, 2, ...

    Two methods make a proposal. What it may offer beyond them is listed in
    `quasir.core.types.OPTIONAL`; `prefix_stable` is one such attribute.
    """

    prefix_stable = True  # the first k items of sample(n, rng) are sample(k, rng)

    def __init__(self, success: float) -> None:
        self.success = success

    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """Draw n items, with all random numbers from `rng`, and their log q."""
        items = np.floor(np.log1p(-rng.random(n)) / np.log1p(-self.success)).astype(np.int64)
        return Batch(items, self.log_prob(items))

    def log_prob(self, items: Items) -> Array:
        """Return log q(x), normalised, for each item; -inf for an item that is never drawn."""
        k = np.asarray(items)
        log_q = np.log(self.success) + k * np.log1p(-self.success)
        return np.where((k >= 0) & (k == np.floor(k)), log_q, -np.inf)
