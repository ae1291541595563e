"""Numbers and values as text, where a plain format is not enough."""

from __future__ import annotations

import math
import textwrap
from typing import Any

__all__ = ["escaped", "level_text", "shown", "tail_text", "wrapped"]


def escaped(text: str, width: int = 80) -> str:
    r"""Return text for a message: shortened, control and direction characters escaped, no quotes.

    Examples
    --------
    >>> escaped("a\u202eb"), escaped("a" * 100, width=10)
    ('a\\u202eb', 'aaaaaaa...')
    """
    cut = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: width + 1])
    return cut if len(cut) <= width else cut[: width - 3] + "..."


def shown(value: Any, width: int = 60) -> str:
    r"""Return a value for a message: its repr, shortened, whatever it is.

    Control and direction characters are escaped. A value that has no repr, such as an integer of
    5,000 digits, is described.

    Examples
    --------
    >>> shown("a\u202eb"), shown("a" * 100, width=10), shown(10**5000)
    ("'a\\u202eb'", "'aaaaaa...", 'an integer of about 5001 digits')
    """
    if isinstance(value, int) and value.bit_length() > 4000:
        return f"an integer of about {int(value.bit_length() * math.log10(2)) + 1} digits"
    if isinstance(value, (str, bytes)):
        value = value[: width + 1]
    try:
        return escaped(repr(value), width)
    except Exception:  # a repr is the user's own code, or too deep
        return f"a {type(value).__name__}"


def level_text(log_x: float) -> str:
    """Return e^log_x as text, even if it is outside a float's range.

    Examples
    --------
    >>> level_text(0.0), level_text(800.0)
    ('1', 'e^800')
    """
    return f"{math.exp(log_x):.4g}" if -690 < log_x < 700 else f"e^{log_x:.6g}"


def tail_text(k: float) -> str:
    """Return Pareto k as text.

    Examples
    --------
    >>> tail_text(0.3), tail_text(-math.inf)
    ('Pareto k 0.30', 'largest ratios all equal')
    """
    if math.isnan(k):
        return "Pareto k unknown"
    return "largest ratios all equal" if k == -math.inf else f"Pareto k {k:.2f}"


def wrapped(text: str, indent: str = "", further: str = "  ") -> list[str]:
    """Return a text in lines of at most 79 characters, cut at spaces alone.

    A path or a command is not cut at its hyphens: it must still work when it is copied.

    Examples
    --------
    >>> wrapped("draw on with: quasir draw runs/my-own-run", "! ")
    ['! draw on with: quasir draw runs/my-own-run']
    """
    return textwrap.wrap(
        text,
        79,
        initial_indent=indent,
        subsequent_indent=further,
        break_on_hyphens=False,
        break_long_words=False,
    )
