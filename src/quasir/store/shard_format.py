"""Draws as Arrow tables, and back: the format of a shard.

A row is a draw: its index in the run, the item (`text` and `token_ids`, or `item`), log_q, log_p,
log_base, log_u, and a column `feature:NAME` for each feature.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from quasir.core.items import Coded, Strings, Text, TokenTexts
from quasir.core.types import Items
from quasir.errors import InputError
from quasir.store.rows import CONTEXT, FEATURE, Rows

__all__ = ["items_from", "read", "rows_from", "schema_of", "table_of", "write"]


def table_of(rows: Rows, first: int) -> pa.Table:
    """Return rows as a table; the first of them is draw number `first` of its run."""
    columns: dict[str, Any] = {"index": np.arange(first, first + len(rows), dtype=np.int64)}
    return pa.table(columns | _item_columns(rows.items) | rows.columns)


def rows_from(table: pa.Table, items: bool) -> Rows:
    """Return the rows of a table, with their items or without."""
    columns = {
        name: np.asarray(table[name].to_numpy(), np.float64)
        if name.startswith("log_")
        else table[name].to_numpy()
        for name in table.column_names
        if name.startswith(("log_", FEATURE)) or name == CONTEXT
    }
    return Rows(columns, items_from(table) if items else None)


def _item_columns(items: Items) -> dict[str, Any]:
    if items is None:
        return {}
    if isinstance(items, Coded) and len(items):
        # A support is small: each of its items is converted once, then looked up.
        support = _item_columns(_packed(list(items.support)))
        codes = pa.array(items.codes)
        return {name: pa.array(column).take(codes) for name, column in support.items()}
    if isinstance(items, np.ndarray) and items.dtype.kind in "iufb" and items.ndim == 1:
        return {"item": items}
    if hasattr(items, "ids"):  # a language model's texts, drawn or read
        ids = pa.ListArray.from_arrays(items.offsets.astype(np.int32), pa.array(items.ids))
        return {"text": _strings(items.strings), "token_ids": ids}
    if isinstance(items, Strings):
        return {"text": _strings(items)}
    plain = list(items)
    if plain and all(type(item) is Text for item in plain):
        texts = _strings([item.text for item in plain])
        return {"text": texts, "token_ids": pa.array([list(item.token_ids) for item in plain])}
    encoded = []
    for item in plain:
        written = json.dumps(item) if _is_plain(item) else None
        if written is None:
            raise InputError(
                f"an item is a {type(item).__name__}, which a store cannot keep: items must be "
                "texts, numbers, or lists and dictionaries of those. Save the draws without items, "
                "or with strings that stand for them."
            )
        encoded.append(written)
    return {"json": pa.array(encoded, pa.string())}


def _packed(support: list[Any]) -> Items:
    if all(type(item) is str for item in support):
        return Strings.of(support)
    if all(type(item) is int for item in support):
        return np.asarray(support)
    return support


def _is_plain(item: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(item)) == item)
    except (TypeError, ValueError):
        return False


def _strings(strings: Strings | list[str]) -> pa.Array:
    if isinstance(strings, Strings):
        offsets = pa.py_buffer(strings.offsets.astype(np.int64))
        packed = pa.LargeStringArray.from_buffers(
            len(strings), offsets, pa.py_buffer(strings.buffer.tobytes())
        )
        packed.validate(full=True)
        return packed
    return pa.array(strings, pa.large_string())


def items_from(table: pa.Table) -> Items:
    """Return the items of a table's draws, or None if it has no columns for them."""
    if "item" in table.column_names:
        return table["item"].to_numpy()
    if "json" in table.column_names:
        objects = np.empty(len(table), dtype=object)
        for i, written in enumerate(table["json"].to_pylist()):
            objects[i] = json.loads(written)
        return objects
    if "text" not in table.column_names:
        return None
    text = table["text"].combine_chunks()
    text = text.cast(pa.large_string()) if len(text) else pa.array([], pa.large_string())
    offsets = np.frombuffer(text.buffers()[1], np.int64)[text.offset :][: len(text) + 1]
    data = text.buffers()[2]
    buffer = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    strings = Strings(buffer[offsets[0] : offsets[-1]], offsets - offsets[0])
    if "token_ids" not in table.column_names:
        return strings
    ids = table["token_ids"].combine_chunks()
    starts = np.asarray(ids.offsets, np.int64)
    values = np.asarray(ids.values, np.int32)[starts[0] : starts[-1]]
    return TokenTexts(strings, values, starts - starts[0])


def write(table: pa.Table, path: Path) -> None:
    """Write a shard. Texts are compressed; log-probabilities have nothing to compress."""
    compression = {name: "zstd" if _compressible(name) else "none" for name in table.column_names}
    pq.write_table(
        table,
        path,
        compression=compression,
        use_dictionary=False,
        write_page_checksum=True,
        row_group_size=len(table) or 1,
    )


def _compressible(name: str) -> bool:
    return name in ("text", "token_ids", "json", "index", "item", CONTEXT) or name.startswith(
        FEATURE
    )


def read(
    source: Path | pa.BufferReader, columns: list[str] | None = None, check: bool = False
) -> pa.Table:
    """Read a shard, or some of its columns; `check` compares their pages with their checksums."""
    return pq.read_table(
        source,
        columns=columns,
        use_threads=True,
        memory_map=True,
        page_checksum_verification=check,
    )


def schema_of(source: Path | pa.BufferReader) -> pa.Schema:
    """Return the names of a shard's columns, and its metadata."""
    return pq.read_schema(source)
