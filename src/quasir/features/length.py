"""The length of a text."""

from __future__ import annotations

from typing import Any, Literal

from quasir.core.arguments import show
from quasir.core.items import text_of
from quasir.errors import InputError
from quasir.targets.feature import Feature

__all__ = ["length"]


def length(
    unit: Literal["characters", "words", "tokens"] = "words", name: str | None = None
) -> Feature:
    """Return the number of characters, of words between spaces, or of a model's tokens.

    Examples
    --------
    >>> length()(["two words"])
    array([2.])
    """
    counts = {
        "characters": lambda item: len(text_of(item)),
        "words": lambda item: len(text_of(item).split()),
        "tokens": _tokens,
    }
    if not isinstance(unit, str) or unit not in counts:
        raise InputError(f"unit is {show(unit)}, but must be one of {sorted(counts)}.")
    return Feature(f"length in {unit}" if name is None else name, counts[unit], low=0.0)


def _tokens(item: Any) -> int:
    try:
        return len(item.token_ids)
    except AttributeError:
        raise InputError("only texts that a language model drew have token_ids.") from None
