"""The gender that most pronouns of a text have."""

from __future__ import annotations

import re
from typing import Any, Literal

from quasir.core.arguments import show
from quasir.core.items import text_of
from quasir.errors import InputError
from quasir.features.patterns import whole_words
from quasir.targets.feature import Feature
from quasir.targets.word_group import WordGroup

__all__ = ["PRONOUNS", "pronouns"]

PRONOUNS = {"male": ("he", "him", "himself"), "female": ("she", "her", "herself")}
"""The lists of Khalifa et al. (2021), which the paper follows."""


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
        raise InputError(f"gender is {show(gender)}, but must be one of {sorted(PRONOUNS)}.")
    if not isinstance(case, str) or case not in ("any", "lower"):
        raise InputError(f"case is {show(case)}, but must be 'any' or 'lower'.")
    other = "male" if gender == "female" else "female"
    flags = re.IGNORECASE if case == "any" else 0
    ours, theirs = (re.compile(whole_words(PRONOUNS[g]), flags) for g in (gender, other))

    def outnumber(item: Any) -> bool:
        text = text_of(item)
        return len(ours.findall(text)) > len(theirs.findall(text))

    def spans(text: str) -> list[tuple[int, int]]:
        return [match.span() for match in ours.finditer(text)]

    made = Feature(gender if name is None else name, outnumber, spans=spans, boolean=True)
    # Those of the other gender are fitted too, and come out less likely.
    made.word_groups = (WordGroup(PRONOUNS[gender]), WordGroup(PRONOUNS[other]))
    return made
