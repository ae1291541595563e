"""Draws as Arrow tables, and back: the format of a shard."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from quasir.core.items import Coded, Strings, Text, TokenTexts, as_items
from quasir.core.types import Items
from quasir.errors import InputError
from quasir.store.store import CONTEXT, FEATURE, Rows

TAG = "__quasir__"  # key of a dictionary that stands for an array, with its dtype, or for a tuple


def table_of(rows: Rows, first: int) -> pa.Table:
    """Return rows as a table; the first of them is draw number `first` of its run."""
    columns: dict[str, Any] = {"index": np.arange(first, first + len(rows), dtype=np.int64)}
    return pa.table(columns | _item_columns(rows.items) | rows.columns)


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of some tables as one; its file is that of the same rows written at once."""
    if len(tables) == 1:
        return tables[0]
    names = tables[0].column_names
    columns: dict[str, Any] = {}
    if any(table.column_names != names for table in tables):
        # Items of several kinds: texts alone in one part, and numbers in another.
        every = [items_from(table) for table in tables]
        plain = [part.tolist() if isinstance(part, np.ndarray) else part for part in every]
        columns = _item_columns(as_items(list(chain.from_iterable(plain))))
        names = [name for name in names if name not in ("text", "token_ids", "json", "item")]
    for name in names:
        parts = [table[name] for table in tables]
        if name in ("text", "token_ids", "json") or pa.types.is_fixed_size_list(parts[0].type):
            chunks = [chunk for part in parts for chunk in part.chunks]
            columns[name] = pa.concat_arrays(chunks)
        else:
            # numpy makes one type of two: a feature is boolean in one part, and NaN in another.
            columns[name] = np.concatenate([part.to_numpy() for part in parts])
    return pa.table({"index": columns.pop("index")} | columns)


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
    if isinstance(items, np.ndarray) and items.dtype.kind in "iufb" and all(items.shape[1:]):
        return {"item": _nested(items)}
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
        try:
            encoded.append(json.dumps(_tagged(item)))
        except (TypeError, ValueError) as error:
            raise InputError(
                f"an item is a {type(item).__name__}, which a store cannot keep ({error}): save "
                "texts, numbers, arrays, or lists, tuples and dictionaries of those, or no items."
            ) from error
    return {"json": pa.array(encoded, pa.string())}


def _nested(items: NDArray[Any]) -> Any:
    """Return an array as a column: of numbers, or of lists of the sizes of its other axes."""
    column = pa.array(np.ascontiguousarray(items).ravel())
    for size in items.shape[:0:-1]:
        column = pa.FixedSizeListArray.from_arrays(column, size)
    return column


def _unnested(column: pa.ChunkedArray) -> Any:
    shape, kind = [len(column)], column.type
    if not pa.types.is_fixed_size_list(kind):
        return column.to_numpy()
    values = column.combine_chunks()
    while pa.types.is_fixed_size_list(kind):
        shape, kind = [*shape, kind.list_size], kind.value_type
        values = values.flatten()
    return values.to_numpy(zero_copy_only=False).reshape(shape)


def _tagged(item: Any) -> Any:
    """Return what JSON keeps as it is, with a tag for arrays and tuples."""
    if isinstance(item, np.ndarray):
        if item.dtype.kind not in "iufb":
            raise TypeError(f"an array of {item.dtype} is not one of numbers")
        # The shape too: a list of no rows does not say how long they are.
        return {TAG: item.dtype.str, "shape": item.shape, "values": item.ravel().tolist()}
    if type(item) is tuple:
        return {TAG: "tuple", "values": [_tagged(part) for part in item]}
    if type(item) is list:
        return [_tagged(part) for part in item]
    if type(item) is dict:
        if TAG in item or not all(type(key) is str for key in item):
            raise TypeError(f"its keys must be strings other than {TAG}")
        return {key: _tagged(part) for key, part in item.items()}
    if json.loads(json.dumps(item)) != item:
        raise TypeError("it would be another item when it is read")
    return item


def _untagged(made: dict[str, Any]) -> Any:
    if TAG not in made:
        return made
    if made[TAG] == "tuple":
        return tuple(made["values"])
    return np.array(made["values"], made[TAG]).reshape(made["shape"])


def _packed(support: list[Any]) -> Items:
    if all(type(item) is str for item in support):
        return Strings.of(support)
    if all(type(item) is int for item in support):
        return np.asarray(support)
    return support


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
        return _unnested(table["item"])
    if "json" in table.column_names:
        objects = np.empty(len(table), dtype=object)
        for i, written in enumerate(table["json"].to_pylist()):
            objects[i] = json.loads(written, object_hook=_untagged)
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


def write(table: pa.Table, path: Path | pa.BufferOutputStream) -> None:
    """Write a shard. Texts are compressed; log-probabilities have nothing to compress."""
    compressed = {"text", "token_ids", "json", "index", "item", CONTEXT}
    compression = {
        name: "zstd" if name in compressed or name.startswith(FEATURE) else "none"
        for name in table.column_names
    }
    pq.write_table(
        table,
        path,
        compression=compression,
        use_dictionary=False,
        write_page_checksum=True,
        row_group_size=len(table) or 1,
    )


def read(
    source: Path | pa.BufferReader, columns: list[str] | None = None, check: bool = False
) -> pa.Table:
    """Read a shard, or some of its columns; `check` compares their pages with their checksums."""
    return pq.read_table(
        source, columns=columns, use_threads=True, memory_map=True, page_checksum_verification=check
    )


def bytes_of(table: pa.Table) -> bytes:
    """Return the content of the file of a table."""
    buffer = pa.BufferOutputStream()
    write(table, buffer)
    return bytes(buffer.getvalue().to_pybytes())


def read_part(content: bytes) -> pa.Table:
    """Read a checked table with the types that it was written with."""
    table = read(pa.BufferReader(content), check=True)
    # Parquet calls the field of a list "element", and Arrow "item".
    for place, (name, kind) in enumerate(zip(table.schema.names, table.schema.types, strict=True)):
        if pa.types.is_list(kind):
            plain = table[name].cast(pa.list_(kind.value_type))
            table = table.set_column(place, name, plain)
        elif pa.types.is_fixed_size_list(kind):
            table = table.set_column(place, name, _nested(_unnested(table[name])))
    return table


def schema_of(source: Path | pa.BufferReader) -> pa.Schema:
    """Return the names of a shard's columns, and its metadata."""
    return pq.read_schema(source)
