"""The fields of guides in a recipe: languages as features, masks and boosts in the proposal."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from quasir.errors import InputError
from quasir.guides import Language, choice, grammar, json_schema, regex
from quasir.recipes.numbers import Flag, Positive
from quasir.recipes.parts import Name, Part, check_beside
from quasir.recipes.placeholders import without_fields

__all__ = ["GuideSpec", "LanguageSpec"]

KINDS = {"regex": regex, "json_schema": json_schema, "grammar": grammar, "choice": choice}


class LanguageSpec(Part):
    """A language of whole texts: exactly one kind."""

    regex: str | None = None
    json_schema: dict[str, Any] | str | None = None
    grammar: str | None = None
    choice: Annotated[list[str], Field(min_length=1)] | None = None
    complete: Flag = True

    @model_validator(mode="after")
    def _one_kind(self) -> LanguageSpec:
        kinds = self.given(tuple(KINDS))
        if len(kinds) != 1:
            raise ValueError(
                f"a language is of exactly one kind, but this has {' and '.join(kinds) or 'none'}: "
                f"give one of {', '.join(KINDS)}"
            )
        try:
            self._tried().made("language")
        except InputError as error:
            raise ValueError(str(error).removesuffix(".")) from error
        return self

    def _tried(self) -> LanguageSpec:
        """Return the language without fields of a context, whose values are not known yet."""
        if self.regex is None:
            return self
        return self.model_copy(update={"regex": without_fields(self.regex)})

    def made(self, name: str) -> Language:
        """Return the language, with the name of its feature."""
        kind = self.given(tuple(KINDS))[0]
        made: Language = KINDS[kind](getattr(self, kind), complete=self.complete, name=name)
        return made


class GuideSpec(Part):
    """A guide: a file that was written before, or masks and boosts.

    Attributes
    ----------
    mask : list of str
        Features of the recipe that are languages.
    boost : list or dict
        Features of the recipe, or words; a dictionary gives their factors.
    file : str
        A guide that `quasir tune --guide` or `Guide.save` wrote, beside the recipe; or a built-in
        one, such as quasir/scientists.
    """

    mask: Annotated[list[Name], Field(min_length=1)] | None = None
    boost: Annotated[dict[Name, Positive], Field(min_length=1)] | list[Name] | None = None
    file: Name | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("mask"), str):
            return value | {"mask": [value["mask"]]}
        return value

    @model_validator(mode="after")
    def _some(self) -> GuideSpec:
        kinds = self.given(("mask", "boost", "file"))
        if not kinds or (self.file is not None and len(kinds) > 1):
            raise ValueError("a guide is a file, or has a mask, a boost, or both")
        if self.file is not None:
            check_beside(self.file, "the guide")
        return self
