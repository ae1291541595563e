"""A cache of keys and values in which rows can begin at different times.

Each decoding step writes one column, the same for all rows, in a ring of as many columns as a text
has tokens. The mask hides from a row the columns written before it began. When a row ends, another
draw takes its place. The columns of each prompt are computed once and copied to the rows that have
it; rows with prompts of different lengths have as many columns as the longest.
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
    """Keys and values of some rows: the prompt of each, then a ring of `columns` columns.

    Parameters
    ----------
    prompts : list of (keys, values)
        For each layer, tensors (prompts, heads, length, d).
    rows : tensor of int
        The prompt of each row.
    columns : int
    """

    def __init__(self, prompts: list[tuple[Tensor, Tensor]], rows: Tensor, columns: int) -> None:
        self.column = 0
        layers = [_RingLayer(self, keys, values, rows, columns) for keys, values in prompts]
        super().__init__(layers=layers)

    def renew(self, rows: Tensor, prompt: Tensor) -> None:
        """Give rows other prompts."""
        for layer in self.layers:
            layer.keys[rows, :, : layer.prompt] = layer.prompt_keys[prompt]
            layer.values[rows, :, : layer.prompt] = layer.prompt_values[prompt]

    def keep(self, into: Tensor, source: Tensor, left: int) -> None:
        """Copy rows `source` over rows `into`, and keep the first `left`."""
        for layer in self.layers:
            layer.keys = moved(layer.keys, into, source, left)
            layer.values = moved(layer.values, into, source, left)


class _RingLayer(CacheLayerMixin):  # type: ignore[misc]
    is_sliding = False

    def __init__(
        self, ring: RingCache, keys: Tensor, values: Tensor, rows: Tensor, columns: int
    ) -> None:
        super().__init__()
        self.ring, self.prompt = ring, keys.shape[-2]
        self.prompt_keys, self.prompt_values = keys, values
        new = partial(torch.nn.functional.pad, pad=(0, 0, 0, columns))
        self.keys, self.values = new(keys)[rows], new(values)[rows]
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
