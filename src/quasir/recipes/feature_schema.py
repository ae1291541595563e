"""The fields of a feature in a recipe."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from quasir import features
from quasir.core.formatting import shown
from quasir.errors import InputError
from quasir.recipes.guide_schema import LanguageSpec
from quasir.recipes.numbers import Finite, Flag
from quasir.recipes.parts import Part, check_beside
from quasir.recipes.similarity_schema import SimilaritySpec

__all__ = ["FeatureSpec"]

KINDS = ("words", "contains", "regex", "pronouns", "length", "similarity", "language", "python")
"""The kinds of features; a language is of whole texts."""


class FeatureSpec(Part):
    """One feature: the name of a built-in one, or exactly one kind with its settings."""

    named: str | None = None
    words: Annotated[list[str], Field(min_length=1)] | None = None
    contains: str | None = None
    regex: str | None = None
    pronouns: Literal["female", "male"] | None = None
    length: Literal["characters", "words", "tokens"] | None = None
    similarity: SimilaritySpec | None = None
    language: LanguageSpec | None = None
    python: Annotated[str, Field(pattern=r"^[^:]+\.py:[A-Za-z_]\w*$")] | None = None
    case: Flag | None = None
    boolean: Flag | None = None
    low: Finite | None = None
    high: Finite | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"named": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_kind(self) -> FeatureSpec:
        kinds = self.given(("named", *KINDS))
        if len(kinds) != 1:
            raise ValueError(
                f"a feature is of exactly one kind, but this has {' and '.join(kinds) or 'none'}: "
                f"give one of {', '.join(KINDS)}, or the name of a built-in one "
                f"({', '.join(features.NAMED)})"
            )
        if self.named is not None and self.named not in features.NAMED:
            raise ValueError(
                f"no feature is called {shown(self.named)}: built in are "
                f"{', '.join(features.NAMED)}; define others as in {{contains: word}}"
            )
        if self.case is not None and not self.given(("words", "contains", "regex")):
            raise ValueError("case goes with words, contains or regex")
        self._try_pattern()
        self._check_python()
        self._check_declaration()
        return self

    def _try_pattern(self) -> None:
        """Make the pattern once, so that a wrong one is found with its line."""
        try:
            if self.words is not None:
                features.words(self.words)
            if self.contains is not None:
                features.contains(self.contains)
            if self.regex is not None:
                features.regex(self.regex)
        except InputError as error:
            raise ValueError(str(error).removesuffix(".")) from error

    def _check_python(self) -> None:
        if self.python is None:
            return
        check_beside(self.python.rpartition(":")[0], "the code")

    def _check_declaration(self) -> None:
        declared = self.given(("boolean", "low", "high"))
        if declared and self.python is None:
            raise ValueError(
                f"{' and '.join(declared)} declare what a feature of your own (python) can be; "
                "built-in ones know it"
            )
        if self.boolean and len(declared) > 1:
            raise ValueError("a boolean feature is 0 or 1: leave out low and high")
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise ValueError(f"low is {self.low:g}, which is not below high, {self.high:g}")

    @property
    def may_be_boolean(self) -> bool:
        """Whether it is true or false; a user's own feature counts, unless it declares bounds."""
        if self.python is not None:
            return not self.given(("low", "high"))
        return self.length is None and (
            self.similarity is None or self.similarity.above is not None
        )
