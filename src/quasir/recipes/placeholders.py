"""Placeholders ``{name}`` in a text, and what takes their place."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import overload

__all__ = ["FIELD", "Fill", "escaped_for_language", "without_fields"]

FIELD = re.compile(r"\{(\{)?([A-Za-z_]\w*)\}(?(1)\})")
"""A field, or with its first group the text of one in doubled braces."""
SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
"""Characters that mean something in the patterns of languages (those of Rust)."""


class Fill:
    """Puts values into texts.

    Examples
    --------
    >>> Fill({"word": "a.b"}.__getitem__)("{word} is {{word}}")
    'a.b is {word}'
    """

    def __init__(self, value: Callable[[str], str]) -> None:
        self.value = value

    @overload
    def __call__(self, text: str, escape: Callable[[str], str] = ...) -> str: ...

    @overload
    def __call__(self, text: None, escape: Callable[[str], str] = ...) -> None: ...

    def __call__(self, text: str | None, escape: Callable[[str], str] = str) -> str | None:
        """Return a text with its fields replaced; what a value holds is not looked at again."""
        if text is None:
            return None

        def put(match: re.Match[str]) -> str:
            return f"{{{match[2]}}}" if match[1] else escape(self.value(match[2]))

        return FIELD.sub(put, text)


def escaped_for_language(text: str) -> str:
    """Return the pattern of a language that a text alone is in."""
    return SPECIAL.sub(r"\\\g<0>", text)


def without_fields(text: str) -> str:
    """Return a text with a letter in the place of every field, to try a pattern."""
    return Fill(lambda name: "x")(text)
