"""Items in columns: numpy arrays, or `Column`s that make an object on access."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quasir.core.formatting import html_table, short_repr, to_pandas
from quasir.core.types import Items
from quasir.errors import InputError

SHOWN_ROWS, SHOWN_COLUMNS, SHOWN_CHARACTERS = 10, 8, 120  # the most that a notebook shows of them


class Column:
    """A sequence of items that are stored in arrays; each object is made on access."""

    def __len__(self) -> int:
        raise NotImplementedError

    def item(self, i: int) -> Any:
        """Make item i, 0 <= i < len(self)."""
        raise NotImplementedError

    def take(self, indices: NDArray[np.integer]) -> Self:
        """Return the column of the items at `indices`."""
        raise NotImplementedError

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Join columns of one kind."""
        raise NotImplementedError

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, (int, np.integer)):
            if not -len(self) <= index < len(self):
                raise IndexError(f"item {index} of {len(self)}")
            return self.item(int(index) % len(self))
        return self.take(np.arange(len(self))[index])

    def __iter__(self) -> Iterator[Any]:
        return (self.item(i) for i in range(len(self)))

    def __repr__(self) -> str:
        shown = ", ".join(repr(self.item(i)) for i in range(min(3, len(self))))
        return f"<{type(self).__name__} of {len(self):,} items: {shown}{', ...' * (len(self) > 3)}>"


class Strings(Column):
    """Strings as one UTF-8 buffer and their offsets."""

    def __init__(self, buffer: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        self.buffer, self.offsets = buffer, offsets

    @classmethod
    def of(cls, texts: Sequence[str]) -> Self:
        """Pack strings; lone surrogates are kept."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        offsets = offsets_of([len(text) for text in encoded])
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def item(self, i: int) -> str:
        """Decode string i."""
        piece = self.buffer[self.offsets[i] : self.offsets[i + 1]]
        return piece.tobytes().decode("utf-8", "surrogatepass")

    def take(self, indices: NDArray[np.integer]) -> Self:
        """Return the strings at `indices`, packed anew."""
        return type(self)(*ragged_take(self.buffer, self.offsets, indices))

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Join packed strings without decoding them."""
        offsets = offsets_of(np.concatenate([np.diff(part.offsets) for part in parts]))
        return cls(np.concatenate([part.buffer for part in parts]), offsets)


class Text(str):
    """A string that knows the token ids it was drawn as, without the end-of-sequence token.

    It is a str in every way: two of them are equal if their strings are, whatever their tokens.

    Examples
    --------
    >>> poet = Text("A poet.", (5, 17, 2))
    >>> "poet" in poet, poet.split(), poet[:1], len(poet), poet.token_ids
    (True, ['A', 'poet.'], 'A', 7, (5, 17, 2))
    """

    token_ids: tuple[int, ...]

    def __new__(cls, text: str, token_ids: Sequence[int]) -> Self:
        """Make a string that knows its token ids."""
        made = super().__new__(cls, text)
        made.token_ids = tuple(token_ids)
        return made

    @property
    def text(self) -> str:
        """The string alone."""
        return str(self)

    def __reduce__(self) -> tuple[type[Self], tuple[str, tuple[int, ...]]]:
        return type(self), (str(self), self.token_ids)


class TokenTexts(Column):
    """Texts and their token ids, as read from a store: no tokenizer is needed."""

    def __init__(
        self, strings: Strings, ids: NDArray[np.int32], offsets: NDArray[np.int64]
    ) -> None:
        self.strings, self.ids, self.offsets = strings, ids, offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def item(self, i: int) -> Text:
        """Make text i."""
        ids = self.ids[self.offsets[i] : self.offsets[i + 1]]
        return Text(self.strings.item(i), tuple(ids.tolist()))

    def take(self, indices: NDArray[np.integer]) -> Self:
        """Return the texts at `indices`."""
        ids, offsets = ragged_take(self.ids, self.offsets, indices)
        return type(self)(self.strings.take(indices), ids, offsets)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Join texts."""
        offsets = offsets_of(np.concatenate([np.diff(part.offsets) for part in parts]))
        ids = np.concatenate([part.ids for part in parts])
        return cls(Strings.concatenate([part.strings for part in parts]), ids, offsets)


class Coded(Column):
    """Items of a small support, as indices into it."""

    def __init__(self, support: Sequence[Any], codes: NDArray[np.integer]) -> None:
        self.support, self.codes = support, codes

    def __len__(self) -> int:
        return len(self.codes)

    def item(self, i: int) -> Any:
        """Look item i up in the support."""
        return self.support[self.codes[i]]

    def take(self, indices: NDArray[np.integer]) -> Self:
        """Return the items at `indices`, over the same support."""
        return type(self)(self.support, self.codes[indices])

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Join columns over one support, or over the union of their supports."""
        support = parts[0].support
        if all(part.support is support for part in parts):
            return cls(support, np.concatenate([part.codes for part in parts]))
        union = tuple(dict.fromkeys(chain.from_iterable(part.support for part in parts)))
        place = {item: code for code, item in enumerate(union)}
        moves = [np.array([place[item] for item in part.support], np.intp) for part in parts]
        codes = [move[part.codes] for move, part in zip(moves, parts, strict=True)]
        return cls(union, np.concatenate(codes))


def offsets_of(lengths: ArrayLike) -> NDArray[np.int64]:
    """Return where each piece begins, given their lengths, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def ragged_take(
    values: NDArray[Any], offsets: NDArray[np.int64], indices: NDArray[np.integer]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the pieces ``values[offsets[i]:offsets[i + 1]]`` at `indices`, and their offsets."""
    starts, lengths = offsets[:-1][indices], np.diff(offsets)[indices]
    new = offsets_of(lengths)
    # Entry j of the new array stands at its piece's start plus its place in the piece.
    places = np.arange(new[-1]) - np.repeat(new[:-1] - starts, lengths)
    return values[places], new


def as_items(items: Items) -> Items:
    """Return items as a column: an array or a `Column` as it is, a sequence packed."""
    check_items(items)
    if isinstance(items, (Column, np.ndarray)):
        return items
    listed = list(items)
    if len(listed) != len(items):  # a table of pandas has as many entries as columns
        raise InputError(
            f"items are a {type(items).__name__} of length {len(items)} with {len(listed)} entries."
        )
    if all(type(item) is str for item in listed):
        return Strings.of(listed)
    if all(isinstance(item, (int, np.integer)) and not isinstance(item, bool) for item in listed):
        numbers = np.asarray(listed)
        if numbers.dtype.kind in "iu":
            return numbers
    objects = np.empty(len(listed), dtype=object)
    for i, item in enumerate(listed):
        objects[i] = item
    return objects


def check_items(items: Items) -> None:
    """Raise `InputError` unless this is a sequence of items; one text is not."""
    wrong = isinstance(items, (str, bytes, bytearray, Mapping, Set, type))
    if isinstance(items, np.ndarray):
        wrong = items.ndim == 0 or isinstance(items, np.ma.MaskedArray)
    if wrong or not (hasattr(items, "__len__") and hasattr(items, "__getitem__")):
        raise InputError(
            f"items are a {type(items).__name__}, but must be a sequence of items, as a list."
        )


def take(items: Items, indices: NDArray[Any]) -> Items:
    """Return the items at `indices`."""
    return items.take(indices) if isinstance(items, Column) else items[indices]


def concatenate(parts: Sequence[Items]) -> Items:
    """Join columns; items of different kinds of columns are packed anew."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    if isinstance(first, Column) and all(type(part) is type(first) for part in parts):
        return first.concatenate(parts)
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return as_items(list(chain.from_iterable(parts)))


def text_of(item: Any) -> str:
    """Return the text of an item: a string itself, a text's ``.text``, else its str.

    Examples
    --------
    >>> text_of("A poet."), text_of(Text("A poet.", (5, 17, 2))), text_of(11)
    ('A poet.', 'A poet.', '11')
    """
    if isinstance(item, str):
        return item
    text = getattr(item, "text", None)
    return text if isinstance(text, str) else str(item)


class Tabular:
    """What `Draws` and all sample sets share: ``x[i]`` is an item, ``x[slice]`` the same class."""

    items: Items
    features: Mapping[str, NDArray[Any]]

    def __len__(self) -> int:
        raise NotImplementedError

    def take(self, indices: Any) -> Self:
        """Return those at `indices`."""
        raise NotImplementedError

    def _numbers(self) -> dict[str, NDArray[Any] | None]:
        """Return name -> column; a column that is None is left out."""
        raise NotImplementedError

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, (int, np.integer)) and not isinstance(index, bool):
            if not -len(self) <= index < len(self):
                raise IndexError(f"there is no item {short_repr(index)}: there are {len(self):,}")
            return self._column()[int(index) % len(self)]
        return self.take(places_of(index, len(self)))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._column())

    @property
    def texts(self) -> list[str]:
        """The text of each item."""
        items = self._column()
        if isinstance(items, Coded):
            support = [text_of(item) for item in items.support]
            return [support[code] for code in items.codes.tolist()]
        return [text_of(item) for item in items]

    def to_frame(self) -> Any:
        """Return a pandas DataFrame: a row for each item, with its numbers and features."""
        return to_pandas(self._columns())

    def _column(self) -> Items:
        if self.items is None:
            raise InputError("these draws have no items, only scores: make them with items=.")
        return self.items

    def _columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = {}
        if self.items is not None:
            first = self.items[0] if len(self) else None
            is_text = isinstance(getattr(first, "text", first), str)
            columns["text" if is_text else "item"] = self.texts if is_text else list(self.items)
        columns |= {name: part for name, part in self._numbers().items() if part is not None}
        for name, part in self.features.items():
            columns[f"feature:{name}" if name in columns else name] = part
        return columns

    def _repr_html_(self) -> str:
        columns = dict(list(self[:SHOWN_ROWS]._columns().items())[:SHOWN_COLUMNS])
        head = [short_repr(name)[1:-1] for name in columns]
        body = [map(_cell, row) for row in zip(*columns.values(), strict=True)]
        more = len(self) - SHOWN_ROWS
        return html_table(repr(self), head, body, [f"and {more:,} more"] * (more > 0))


def places_of(index: Any, n: int) -> NDArray[np.intp]:
    """Return the places that a slice, an array of indices or an array of booleans selects."""
    try:
        places = np.arange(n)[index] if isinstance(index, slice) else np.asarray(index)
    except Exception:  # such as lists of different lengths
        places = np.empty((0, 0))
    if places.size == 0 and places.ndim == 1:
        return np.empty(0, np.intp)
    if places.dtype == bool and places.shape == (n,):
        return np.flatnonzero(places)
    if places.ndim != 1 or places.dtype.kind not in "iu" or places.max() >= n or places.min() < -n:
        raise InputError(
            f"the indices are {short_repr(index)}, but must be a slice, whole numbers from {-n:,} "
            f"to {n - 1:,}, or {n:,} booleans."
        )
    return places.astype(np.intp)


def _cell(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return f"{value:.4g}"
    text = value if isinstance(value, str) else short_repr(value, SHOWN_CHARACTERS)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "..."
