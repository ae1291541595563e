"""Features that look for words, strings and patterns in a text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from quasir.core.items import text_of
from quasir.errors import InputError
from quasir.targets.feature import Feature

__all__ = ["contains", "regex", "whole_words", "words"]


def regex(pattern: str, name: str | None = None, case: bool = True) -> Feature:
    r"""Return whether a regular expression is found in the text.

    Examples
    --------
    >>> regex(r"born (in )?\d{4}")(["She was born in 1912.", "She was born."])
    array([ True, False])
    """
    try:
        compiled = re.compile(pattern, 0 if case else re.IGNORECASE)
    except re.error as error:
        raise InputError(f"{pattern!r} is not a regular expression: {error}.") from error

    def found(item: Any) -> bool:
        return compiled.search(text_of(item)) is not None

    def spans(text: str) -> list[tuple[int, int]]:
        return [match.span() for match in compiled.finditer(text) if match.end() > match.start()]

    return Feature(name or pattern, found, spans=spans)


def contains(text: str, name: str | None = None, case: bool = True) -> Feature:
    """Return whether the text contains this exact string, anywhere.

    Examples
    --------
    >>> contains("amazing")(["An amazing day", "A maze"])
    array([ True, False])
    """
    if not text:
        raise InputError("contains('') is true of every text: give a string to look for.")
    return regex(re.escape(text), name or f"contains {text!r}", case)


def words(words: Iterable[str], name: str | None = None, case: bool = False) -> Feature:
    """Return whether any of the words is in the text, as a whole word.

    A word is whole if neither a letter, a digit nor an underscore touches it, so punctuation
    around it does not matter. Case matters only with ``case=True``.

    Examples
    --------
    >>> words(["chemist"], name="chemist")(["A Chemist, he...", "alchemist"])
    array([ True, False])
    """
    if isinstance(words, str):
        words = [words]
    stripped = [word.strip() for word in words]
    if not stripped or not all(stripped):
        raise InputError(f"feature {name or 'words'!r} needs at least one word, and no empty ones.")
    return regex(whole_words(stripped), name or " or ".join(stripped), case)


def whole_words(words: Iterable[str]) -> str:
    """Return the pattern that finds any of the words as a whole word."""
    # The longest first, so that "New York" is not cut to "New".
    longest_first = sorted(set(words), key=len, reverse=True)
    return rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)"
