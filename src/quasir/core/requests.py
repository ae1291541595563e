"""Requests for rows of blocks: several proposals may draw theirs in one batch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from quasir.core.types import Array, Items

__all__ = ["Part", "Request"]


class Request(NamedTuple):
    """Rows of a block that one proposal should draw: those from `start` on, before `stop`."""

    rng: np.random.Generator
    start: int
    stop: int

    def uniforms(self, columns: int) -> Array:
        """Return the uniforms of these rows, as the whole block has them."""
        return self.rng.random((self.stop, columns))[self.start :]


class Part(NamedTuple):
    """The draws of one request: items, log q, and log a of the base where it is known."""

    items: Items
    log_q: Array
    log_base: Array | None
