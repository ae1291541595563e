"""Numbers and values as text, where a plain format is not enough."""

from __future__ import annotations

import html
import math
import shlex
import textwrap
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Context, Decimal
from pathlib import Path
from typing import Any

from quasir.errors import InputError


def escaped(text: str, width: int = 80) -> str:
    """Return text for a message: shortened, control and direction characters escaped, no quotes."""
    cut = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: width + 1])
    return cut if len(cut) <= width else cut[: width - 3] + "..."


def short_repr(value: Any, width: int = 80) -> str:
    """Return the repr of any value in one line, shortened."""
    if isinstance(value, (str, bytes)):
        value = value[: width + 1]
    try:
        text = repr(value)
    except Exception:  # it is the user's own code, too deep, or an integer of 5,000 digits
        return f"a {type(value).__name__}"
    return escaped(" ".join(text.split()) if "\n" in text else text, width)


def level_text(log_x: float) -> str:
    """Return e^log_x as text, even if it is outside a float's range."""
    return f"{math.exp(log_x):.4g}" if -690 < log_x < 700 else f"e^{log_x:.6g}"


def rounded_up(x: float, digits: int = 3) -> float:
    """Return the least number of so many digits that is not below x: for an upper bound."""
    if not math.isfinite(x):
        return x
    # The shortest decimal that is this float: 0.1 stays 0.1.
    shortest = Decimal(repr(float(x)))
    return float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(shortest))


def rounded_down(x: float, digits: int = 3) -> float:
    """Return the largest number of so many digits that is not above x: for a lower bound."""
    return -rounded_up(-x, digits)


def tail_text(k: float) -> str:
    """Return Pareto k as text."""
    if math.isnan(k):
        return "Pareto k unknown"
    return "largest ratios all equal" if k == -math.inf else f"Pareto k {k:.2f}"


def wrapped(text: str, indent: str = "", further: str = "  ") -> list[str]:
    """Return lines of at most 79 characters, cut at spaces alone: a command can be copied."""
    wrapper = textwrap.TextWrapper(79, indent, further, break_on_hyphens=False)
    wrapper.break_long_words = False
    return wrapper.wrap(text)


def html_table(
    caption: str,
    head: Iterable[str] | None,
    rows: Iterable[Iterable[str]],
    notes: Iterable[str] = (),
) -> str:
    """Return a table for a notebook, and notes below it."""

    def row(cells: Iterable[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"

    lines = ([row(head, "th")] if head else []) + [row(cells, "td") for cells in rows]
    below = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
    return f"<table><caption>{html.escape(caption)}</caption>{''.join(lines)}</table>{below}"


def to_pandas(columns: Mapping[str, Any]) -> Any:
    """Return columns as a pandas DataFrame."""
    try:
        import pandas as pd
    except ImportError as error:
        raise InputError("to_frame needs pandas: pip install '.[pandas]' in a clone.") from error
    return pd.DataFrame(columns)


def command(name: str, folder: str | Path, *options: Any, own_code: bool = False) -> str:
    """Return a command on a run, ready for a shell; `own_code` permits the recipe's own code."""
    place = f"./{folder}" if str(folder).startswith("-") else str(folder)
    words = ["quasir", name, place, *map(str, options), *(["--allow-code"] if own_code else [])]
    return shlex.join(words)
