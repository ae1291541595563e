"""Features that look for words, strings and patterns in a text, or measure its length."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from quasir.core.arguments import check_bool
from quasir.core.formatting import escaped, short_repr
from quasir.core.items import text_of
from quasir.core.types import Items
from quasir.errors import FeatureError, InputError
from quasir.targets.feature import Feature, WordGroup

__all__ = ["contains", "length", "pronouns", "search", "words"]

LIMIT = 5.0  # most seconds of computing for one text: some patterns take longer than the universe
NO_REPEAT = re.compile(r"(\\.)|\{(?!\d*,?\d*\})", re.DOTALL)
"""A brace that is no count, as in {2,3}: it stands for itself, but begins more in `regex`."""

PRONOUNS = {"male": ("he", "him", "himself"), "female": ("she", "her", "herself")}
"""The lists of Khalifa et al. (2021), which the paper follows."""


def search(pattern: str, name: str | None = None, case: bool = True) -> Feature:
    r"""Return whether a regular expression is found anywhere in the text, as `re.search` finds it.

    For texts that match as a whole, begin with ``^`` and end with ``$``, or use the feature of a
    language, `guides.regex`. The pattern is one of `re`; the package `regex` searches, and stops
    with an error after 5 seconds of computing for one text.

    Examples
    --------
    >>> search(r"born (in )?\d{4}")(["She was born in 1912.", "She was born."])
    array([ True, False])
    """
    import regex  # it takes time to import

    _check(name, case)
    if not isinstance(pattern, str):
        raise InputError(f"a pattern is a string, not {short_repr(pattern)}.")
    try:
        with warnings.catch_warnings():
            # "[[" may mean something else in a later Python; today it is a bracket.
            warnings.simplefilter("ignore", FutureWarning)
            re.compile(pattern)
        plain = NO_REPEAT.sub(lambda match: match[1] or r"\{", pattern)
        compiled = regex.compile(plain, regex.VERSION0 | (0 if case else regex.IGNORECASE))
    except (re.error, regex.error, OverflowError, RecursionError) as error:
        raise InputError(
            f"{short_repr(pattern)} is not a regular expression: {escaped(str(error))}."
        ) from error
    return _Found(compiled, name or pattern, pattern).feature()


def contains(text: str, name: str | None = None, case: bool = True) -> Feature:
    """Return whether the text contains this exact string, anywhere.

    Examples
    --------
    >>> contains("amazing")(["An amazing day", "A maze"])
    array([ True, False])
    """
    _check(name, case)
    if not isinstance(text, str):
        raise InputError(f"contains looks for a string, not for {short_repr(text)}.")
    if not text:
        raise InputError("contains('') is true of every text: give a string to look for.")
    compiled = re.compile(re.escape(text), 0 if case else re.IGNORECASE)
    words = WordGroup((text,), whole=False, case=bool(case))
    return _Found(compiled, name or f"contains {text!r}").feature(words)


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
    try:
        listed: list[Any] = [words] if isinstance(words, str) else list(words)
    except TypeError:
        listed = [words]
    if not all(isinstance(word, str) for word in listed):
        raise InputError(f"words are a list of strings, not {short_repr(listed)}.")
    stripped = [word.strip() for word in listed]
    if not stripped or not all(stripped):
        raise InputError(f"feature {name or 'words'!r} needs at least one word, and no empty ones.")
    compiled = re.compile(whole_words(stripped), 0 if case else re.IGNORECASE)
    group = WordGroup(tuple(stripped), case=bool(case))
    return _Found(compiled, name or " or ".join(stripped)).feature(group)


def pronouns(
    gender: Literal["female", "male"],
    case: Literal["any", "lower"] = "any",
    name: str | None = None,
) -> Feature:
    """Return whether the pronouns of this gender outnumber those of the other.

    Parameters
    ----------
    gender : {"female", "male"}
    case : {"any", "lower"}
        "lower" counts only lower-case pronouns, as the original code did, and so not the "She"
        that begins a sentence. The paper's own figure colours it, so "any" is the default.
    name : str, optional
        By default the gender.

    Examples
    --------
    >>> texts = ["She is a chemist.", "He met her.", "They met."]
    >>> pronouns("female")(texts), pronouns("female", case="lower")(texts)
    (array([ True, False, False]), array([False,  True, False]))
    """
    if not isinstance(gender, str) or gender not in PRONOUNS:
        raise InputError(f"gender is {short_repr(gender)}, but must be one of {sorted(PRONOUNS)}.")
    if not isinstance(case, str) or case not in ("any", "lower"):
        raise InputError(f"case is {short_repr(case)}, but must be 'any' or 'lower'.")
    other = "male" if gender == "female" else "female"
    flags = re.IGNORECASE if case == "any" else 0
    ours, theirs = (re.compile(whole_words(PRONOUNS[g]), flags) for g in (gender, other))
    more = _Outnumber(_Found(ours, gender), _Found(theirs, other))
    title = gender if name is None else name
    made = Feature(title, more, spans=more.ours.spans, boolean=True)
    # Those of the other gender are fitted too, and come out less likely.
    made.word_groups = (WordGroup(PRONOUNS[gender]), WordGroup(PRONOUNS[other]))
    return made


def length(
    unit: Literal["characters", "words", "tokens"] = "words", name: str | None = None
) -> Feature:
    """Return the number of characters, of words between spaces, or of a model's tokens.

    Examples
    --------
    >>> length()(["two words"])
    array([2.])
    """
    counts = {"characters": _characters, "words": _spaced_words, "tokens": _tokens}
    if not isinstance(unit, str) or unit not in counts:
        raise InputError(f"unit is {short_repr(unit)}, but must be one of {sorted(counts)}.")
    return Feature(f"length in {unit}" if name is None else name, counts[unit], low=0.0)


def whole_words(words: Iterable[str]) -> str:
    # The longest first, so that "New York" is not cut to "New".
    longest_first = sorted(set(words), key=len, reverse=True)
    return rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)"


@dataclass(frozen=True)
class _Found:
    """Whether a pattern is found. Words take few steps; a user's own pattern may never end."""

    compiled: Any
    name: str
    pattern: str | None = None  # the user's own, which `regex` searches

    def __call__(self, items: Items) -> list[bool]:
        find = self.compiled.search
        if self.pattern is None:
            return [find(text_of(item)) is not None for item in items]
        found = []
        for text in map(text_of, items):
            try:
                found.append(find(text, timeout=LIMIT) is not None)
            except TimeoutError:
                raise FeatureError(
                    f"feature {short_repr(self.name)} searched for about {LIMIT:g} s in item "
                    f"{short_repr(text)} of {len(text):,} characters: its pattern "
                    f"{short_repr(self.pattern)} may never end. Repeat nothing that is repeated "
                    "inside, as in (a+)+."
                ) from None
        return found

    def spans(self, text: str) -> list[tuple[int, int]]:
        limit = {} if self.pattern is None else {"timeout": LIMIT}
        try:
            found = [match.span() for match in self.compiled.finditer(text, **limit)]
        except TimeoutError:
            return []
        return [(start, end) for start, end in found if end > start]

    def feature(self, *groups: WordGroup) -> Feature:
        made = Feature(self.name, self, batched=True, spans=self.spans, boolean=True)
        made.word_groups = groups
        return made


@dataclass(frozen=True)
class _Outnumber:
    ours: _Found
    theirs: _Found

    def __call__(self, item: Any) -> bool:
        text = text_of(item)
        return len(self.ours.compiled.findall(text)) > len(self.theirs.compiled.findall(text))


def _check(name: Any, case: Any) -> None:
    if name is not None and not isinstance(name, str):
        raise InputError(f"the name of a feature is a string, not {short_repr(name)}.")
    check_bool("case", case)


def _characters(item: Any) -> int:
    return len(text_of(item))


def _spaced_words(item: Any) -> int:
    return len(text_of(item).split())


def _tokens(item: Any) -> int:
    try:
        return len(item.token_ids)
    except AttributeError:
        raise InputError("only texts that a language model drew have token_ids.") from None
