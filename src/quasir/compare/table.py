"""Tables as Markdown that fits a terminal, and as CSV."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from quasir.compare.cells import NONE
from quasir.compare.comparison import Comparison
from quasir.compare.measures import BLEU
from quasir.compare.notes import notes_of
from quasir.compare.rows import Row
from quasir.estimation.quantities import Key, Moment

__all__ = ["WIDTH", "as_csv", "listed", "markdown", "samplers_markdown"]

WIDTH = 100
"""Characters in a line of a table, at most; a single wide column may exceed it."""


def samplers_markdown(found: Comparison, title: str, width: int = WIDTH) -> str:
    """Return the table of samplers and its notes, as Markdown."""
    columns: dict[str, list[str]] = {
        "Method": [f"{row.method}{' !' * any(row.doubts)}" for row in found.rows],
        "AR": [f"{row.cost.rate:.4g}" for row in found.rows],
        "n x runs": [f"{row.n:,} x {row.runs}" for row in found.rows],
        "draws/sample": _texts(found.rows, "draws_a_sample"),
    }
    for name, boolean in found.boolean.items():
        scale = 100 if boolean else 1
        wish = f" ({scale * found.wanted[name]:.4g})" if name in found.wanted else ""
        columns[f"{'% ' * boolean}{name}{wish}"] = _texts(found.rows, Moment(name), scale)
    columns["PPL"] = _texts(found.rows, "ppl")
    columns[f"Self-BLEU-{BLEU}"] = _texts(found.rows, "self_bleu", 100)
    columns["% unique"] = _texts(found.rows, "unique", 100)
    columns["TVD"], columns["KL"] = _texts(found.rows, "tvd"), _texts(found.rows, "kl")
    # The notes explain a quantity that no row has.
    columns = {name: cells for name, cells in columns.items() if set(cells) != {NONE}}
    table, notes = markdown(columns, 2, width), listed(notes_of(found), width)
    return f"# {title}\n\n{table}\n\n{notes}\n"


def _texts(rows: list[Row], key: Key, scale: float = 1.0) -> list[str]:
    return [row.cells[key].text(scale) for row in rows]


def markdown(columns: Mapping[str, Sequence[str]], keys: int = 1, width: int = WIDTH) -> str:
    """Return columns as Markdown: one table, or several where one would be too wide.

    Parameters
    ----------
    columns : mapping
        Heading -> cells.
    keys : int
        How many of the first columns each table repeats.
    width : int

    Examples
    --------
    >>> print(markdown({"name": ["a"], "mean": ["0.5 ± 0.1"], "count": ["12"]}, width=22))
    | name | mean      |
    |------|-----------|
    | a    | 0.5 ± 0.1 |
    <BLANKLINE>
    | name | count |
    |------|-------|
    | a    | 12    |
    """
    safe = {_safe(name): [_safe(cell) for cell in cells] for name, cells in columns.items()}
    wide = {name: max(map(len, [name, *cells])) for name, cells in safe.items()}
    tables = _parted(wide, keys, width)
    # Keep that number of tables, but make their widths about equal.
    while len(evener := _parted(wide, keys, width - 1)) == len(tables) and width > 1:
        tables, width = evener, width - 1
    return "\n\n".join(_table({name: safe[name] for name in table}, wide) for table in tables)


def _parted(wide: Mapping[str, int], keys: int, width: int) -> list[list[str]]:
    """Part columns into tables of at most this width, each with a column besides the keys."""
    first, rest = list(wide)[:keys], list(wide)[keys:]
    begun = sum(wide[name] + 3 for name in first) + 1
    tables, used = [list(first)], begun
    for name in rest:
        if used + wide[name] + 3 > width and len(tables[-1]) > keys:
            tables.append(list(first))
            used = begun
        tables[-1].append(name)
        used += wide[name] + 3
    return tables


def _table(columns: Mapping[str, Sequence[str]], wide: Mapping[str, int]) -> str:
    def line(cells: Sequence[str]) -> str:
        padded = [cell.ljust(wide[name]) for name, cell in zip(columns, cells, strict=True)]
        return f"| {' | '.join(padded)} |"

    rule = "|" + "|".join("-" * (wide[name] + 2) for name in columns) + "|"
    rows = zip(*columns.values(), strict=True)
    return "\n".join([line(list(columns)), rule, *(line(row) for row in rows)])


def _safe(text: str) -> str:
    """Return text that a cell can hold: a user's name may contain a bar or a line break."""
    return " ".join(text.split()).replace("|", "\\|")


def listed(notes: Sequence[str], width: int = WIDTH) -> str:
    """Return notes as a Markdown list, wrapped."""
    return "\n".join(
        textwrap.fill(f"- {note}", width, subsequent_indent="  ", break_on_hyphens=False)
        for note in notes
    )


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV with the columns of all rows; None gives an empty field.

    Examples
    --------
    >>> as_csv([{"a": 1, "b": None}, {"a": 2, "c": "x"}]).splitlines()
    ['a,b,c', '1,,', '2,,x']
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    file = io.StringIO()
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()
