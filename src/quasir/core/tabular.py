"""Items with columns of numbers, as a notebook wants them: index, slices, a frame, a table."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import show
from quasir.core.items import Coded, text_of
from quasir.core.types import Items
from quasir.errors import InputError

__all__ = ["Tabular", "places_of"]

SHOWN_ROWS, SHOWN_COLUMNS, SHOWN_CHARACTERS = 10, 8, 120
"""The most that a notebook shows of them."""


class Tabular:
    """Items in a row, each with numbers: what `Draws` and all sample sets have in common.

    ``x[i]`` and iteration give items; a slice, an array of indices or of booleans gives the same
    class with those items and their numbers.

    Subclasses define `items`, `features`, `take` and `_numbers`.
    """

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
                raise IndexError(f"there is no item {show(index)}: there are {len(self):,}")
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
        """Return a pandas DataFrame: a row for each item, with its numbers and features.

        The first column is ``text`` if the items are texts, else ``item``.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise InputError("to_frame needs pandas: pip install 'quasir[pandas]'.") from error
        return pd.DataFrame(self._columns())

    def _column(self) -> Items:
        if self.items is None:
            raise InputError(
                "these draws have no items, only scores: make them with items=, or with qr.draw."
            )
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
        head = "".join(f"<th>{html.escape(show(name)[1:-1])}</th>" for name in columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_cell(cell))}</td>" for cell in row) + "</tr>"
            for row in zip(*columns.values(), strict=True)
        )
        more = len(self) - SHOWN_ROWS
        rest = f"<p>and {more:,} more</p>" if more > 0 else ""
        caption = f"<caption>{html.escape(repr(self))}</caption>"
        return f"<table>{caption}<tr>{head}</tr>{body}</table>{rest}"


def places_of(index: Any, n: int) -> NDArray[np.intp]:
    """Return the places that a slice, an array of indices or an array of booleans selects.

    Examples
    --------
    >>> places_of(slice(1, None), 3), places_of([True, False, True], 3)
    (array([1, 2]), array([0, 2]))
    """
    if isinstance(index, slice):
        try:
            return np.arange(n)[index]
        except (TypeError, ValueError) as error:
            raise InputError(f"{show(index)} is not a slice of whole numbers.") from error
    wanted = "must be whole numbers, a slice, or one boolean for each item"
    try:
        places = np.asarray(index)
    except Exception as error:
        raise InputError(f"the indices are {show(index)}, but {wanted}.") from error
    if places.size == 0 and places.ndim == 1:
        return np.empty(0, np.intp)
    if places.dtype == bool and places.shape == (n,):
        return np.flatnonzero(places)
    if places.ndim != 1 or places.dtype.kind not in "iu":
        raise InputError(f"the indices are {show(index)}, but {wanted} ({n:,}).")
    if places.max() >= n or places.min() < -n:
        raise InputError(
            f"there are {n:,} items, but the indices go from {places.min()} to {places.max()}."
        )
    return places.astype(np.intp)


def _cell(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return f"{value:.4g}"
    text = value if isinstance(value, str) else show(value, SHOWN_CHARACTERS)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "..."
