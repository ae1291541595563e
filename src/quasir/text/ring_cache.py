"""A cache of keys and values in which rows can begin at different times.

Each decoding step writes one column, the same for all rows, in a ring of as many columns as a text
has tokens. The mask hides from a row the columns written before it began. When a row ends, another
draw takes its place. The prompt's columns are computed once and copied to all rows.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from quasir.text.decoding import moved

__all__ = ["RingCache"]


class RingCache(Cache):  # type: ignore[misc]
    """Keys and values of `rows` rows: a shared prompt, then a ring of `columns` columns."""

    def __init__(self, prompt: Any, rows: int, columns: int) -> None:
        self.column = 0
        layers = [
            _RingLayer(self, layer.keys, layer.values, rows, columns) for layer in prompt.layers
        ]
        super().__init__(layers=layers)

    def keep(self, into: Tensor, source: Tensor, left: int) -> None:
        """Copy rows `source` over rows `into`, and keep the first `left`."""
        for layer in self.layers:
            layer.keys = moved(layer.keys, into, source, left)
            layer.values = moved(layer.values, into, source, left)


class _RingLayer(CacheLayerMixin):  # type: ignore[misc]
    is_sliding = False

    def __init__(
        self, ring: RingCache, keys: Tensor, values: Tensor, rows: int, columns: int
    ) -> None:
        super().__init__()
        self.ring, self.prompt = ring, keys.shape[-2]
        new = partial(torch.nn.functional.pad, pad=(0, 0, 0, columns))
        self.keys = new(keys).repeat(rows, 1, 1, 1)
        self.values = new(values).repeat(rows, 1, 1, 1)
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Do nothing: the constructor allocates all columns."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Write the current column and return all columns; the mask selects the valid ones."""
        at = self.prompt + self.ring.column
        self.keys[:, :, at] = key_states[:, :, 0]
        self.values[:, :, at] = value_states[:, :, 0]
        return self.keys, self.values

    def get_seq_length(self) -> int:
        """Return the number of columns."""
        return int(self.keys.shape[-2])

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the length and offset of the mask, which the decoder builds itself."""
        return self.get_seq_length(), 0

    def get_max_length(self) -> int:
        """Return the maximum number of columns, all of which exist from the start."""
        return self.get_seq_length()
