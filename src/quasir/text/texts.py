"""Texts as a column of token ids; strings are decoded only when they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from quasir.core.items import Column, Text, offsets_of, ragged_take
from quasir.core.types import Items
from quasir.guides.vocabulary import decode, same_tokenizer, token_ids

__all__ = ["Text", "Texts", "as_texts"]

DECODED_AT_ONCE = 1024


class Texts(Column):
    """Texts of one tokenizer, as one array of token ids and their offsets.

    The end-of-sequence token is not stored: a text shorter than the model's limit ended with it,
    and a text as long as the limit was cut.

    Examples
    --------
    >>> import quasir as qr
    >>> base = qr.text.CausalLM("quasir/biographies", max_tokens=12)
    >>> texts = base.encode(["A poet.", "A chemist."])
    >>> len(texts), texts[1].text
    (2, 'A chemist.')
    """

    def __init__(self, ids: NDArray[np.int32], offsets: NDArray[np.int64], tokenizer: Any) -> None:
        self.ids, self.offsets, self.tokenizer = ids, offsets, tokenizer

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]], tokenizer: Any) -> Self:
        """Make a column of sequences of token ids."""
        offsets = offsets_of([len(sequence) for sequence in sequences])
        ids = np.array([i for sequence in sequences for i in sequence], dtype=np.int32)
        return cls(ids, offsets, tokenizer)

    @classmethod
    def from_rows(cls, rows: NDArray[np.int32], lengths: NDArray[np.int64], tokenizer: Any) -> Self:
        """Make a column of the first `lengths[i]` ids of each row."""
        inside = np.arange(rows.shape[1]) < lengths[:, None]
        offsets = offsets_of(lengths)
        return cls(rows[inside], offsets, tokenizer)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens in each text."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def token_ids(self, i: int) -> NDArray[np.int32]:
        """Return the ids of text i."""
        return self.ids[self.offsets[i] : self.offsets[i + 1]]

    def tuples(self) -> list[tuple[int, ...]]:
        """Return the ids of every text."""
        return [tuple(self.token_ids(i).tolist()) for i in range(len(self))]

    def item(self, i: int) -> Text:
        """Decode text i."""
        ids = self.token_ids(i).tolist()
        return Text(decode(self.tokenizer, [ids])[0], tuple(ids))

    @cached_property
    def strings(self) -> list[str]:
        """The texts as strings; decoded once, because every feature reads them."""
        strings: list[str] = []
        for start in range(0, len(self), DECODED_AT_ONCE):
            some = range(start, min(start + DECODED_AT_ONCE, len(self)))
            strings += decode(self.tokenizer, [self.token_ids(i).tolist() for i in some])
        return strings

    def __iter__(self) -> Iterator[Text]:
        for i, text in enumerate(self.strings):
            yield Text(text, tuple(self.token_ids(i).tolist()))

    def take(self, indices: NDArray[np.integer]) -> Self:
        """Return the texts at `indices`."""
        return type(self)(*ragged_take(self.ids, self.offsets, indices), self.tokenizer)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Join texts of one tokenizer."""
        offsets = offsets_of(np.concatenate([part.lengths for part in parts]))
        return cls(np.concatenate([part.ids for part in parts]), offsets, parts[0].tokenizer)


def as_texts(items: Items, tokenizer: Any) -> Texts:
    """Return items as `Texts` of this tokenizer: its own token ids are kept, others encoded."""
    if isinstance(items, Texts) and same_tokenizer(items.tokenizer, tokenizer):
        return items
    return Texts.of(token_ids(items, tokenizer), tokenizer)
