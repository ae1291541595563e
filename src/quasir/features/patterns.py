"""Features that look for words, strings and patterns in a text."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from typing import Any

from quasir.core.arguments import check_bool
from quasir.core.formatting import escaped, shown
from quasir.core.items import text_of
from quasir.core.types import Items
from quasir.errors import FeatureError, InputError
from quasir.features import cost, guarded
from quasir.targets.feature import Feature
from quasir.targets.word_group import WordGroup

__all__ = ["contains", "regex", "whole_words", "words"]


def regex(pattern: str, name: str | None = None, case: bool = True) -> Feature:
    r"""Return whether a regular expression is found in the text.

    Examples
    --------
    >>> regex(r"born (in )?\d{4}")(["She was born in 1912.", "She was born."])
    array([ True, False])
    """
    _check(name, case)
    return _pattern(_compiled(pattern, 0 if case else re.IGNORECASE), name or pattern)


def contains(text: str, name: str | None = None, case: bool = True) -> Feature:
    """Return whether the text contains this exact string, anywhere.

    Examples
    --------
    >>> contains("amazing")(["An amazing day", "A maze"])
    array([ True, False])
    """
    _check(name, case)
    if not isinstance(text, str):
        raise InputError(f"contains looks for a string, not for {shown(text)}.")
    if not text:
        raise InputError("contains('') is true of every text: give a string to look for.")
    made = regex(re.escape(text), name or f"contains {text!r}", case)
    made.word_groups = (WordGroup((text,), whole=False, case=bool(case)),)
    return made


def words(words: Iterable[str], name: str | None = None, case: bool = False) -> Feature:
    """Return whether any of the words is in the text, as a whole word.

    A word is whole if neither a letter, a digit nor an underscore touches it, so punctuation
    around it does not matter. Case matters only with ``case=True``.

    Examples
    --------
    >>> words(["chemist"], name="chemist")(["A Chemist, he...", "alchemist"])
    array([ True, False])
    """
    _check(name, case)
    listed: list[Any] = [words] if isinstance(words, str) else _listed(words)
    if not all(isinstance(word, str) for word in listed):
        raise InputError(f"words are a list of strings, not {shown(listed)}.")
    stripped = [word.strip() for word in listed]
    if not stripped or not all(stripped):
        raise InputError(f"feature {name or 'words'!r} needs at least one word, and no empty ones.")
    made = regex(whole_words(stripped), name or " or ".join(stripped), case)
    made.word_groups = (WordGroup(tuple(stripped), case=bool(case)),)
    return made


def _check(name: Any, case: Any) -> None:
    if name is not None and not isinstance(name, str):
        raise InputError(f"the name of a feature is a string, not {shown(name)}.")
    check_bool("case", case)


def _listed(words: Any) -> list[Any]:
    try:
        return list(words)
    except TypeError:
        return [words]


def whole_words(words: Iterable[str]) -> str:
    """Return the pattern that finds any of the words as a whole word."""
    # The longest first, so that "New York" is not cut to "New".
    longest_first = sorted(set(words), key=len, reverse=True)
    return rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)"


def _compiled(pattern: Any, flags: int) -> re.Pattern[str]:
    if not isinstance(pattern, str):
        raise InputError(f"a pattern is a string, not {shown(pattern)}.")
    try:
        with warnings.catch_warnings():
            # "[[" may mean something else in a later Python; today it is a bracket.
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile(pattern, flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise InputError(
            f"{shown(pattern)} is not a regular expression: {escaped(str(error))}."
        ) from error


def _pattern(compiled: re.Pattern[str], name: str) -> Feature:
    """Return whether a pattern is found.

    Where a search could take long, another process searches, and stops after a second an item.
    """
    pattern, flags = compiled.pattern, compiled.flags
    longest = _longest_affordable(pattern, flags)

    def found(items: Items) -> list[bool]:
        texts = [text_of(item) for item in items]
        if not texts or max(map(len, texts)) <= longest:
            search = compiled.search
            return [search(text) is not None for text in texts]
        answers = guarded.found_in(pattern, flags, texts)
        if len(answers) < len(texts):
            text = texts[len(answers)]
            raise FeatureError(
                f"feature {shown(name)} searched for about {guarded.LIMIT:g} s in item "
                f"{shown(text)} of {len(text):,} characters: its pattern "
                f"{shown(pattern)} can match in too many ways, and may never end. "
                "Do not repeat what is repeated inside, as in (a+)+, and use few .* in one pattern."
            )
        return answers

    def spans(text: str) -> list[tuple[int, int]]:
        if len(text) > longest:
            return guarded.spans_in(pattern, flags, text)
        return [match.span() for match in compiled.finditer(text) if match.end() > match.start()]

    return Feature(name, found, batched=True, spans=spans, boolean=True)


def _longest_affordable(pattern: str, flags: int) -> int:
    """Return the length of the longest text in which a search surely ends soon."""
    low, high = 0, 1 << 24
    if cost.log_steps(pattern, flags, 1) > cost.AFFORDABLE:
        return 0
    while high - low > 1 + low // 50:
        middle = (low + high) // 2
        if cost.log_steps(pattern, flags, middle) <= cost.AFFORDABLE:
            low = middle
        else:
            high = middle
    return low
