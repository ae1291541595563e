"""Scalars of YAML: texts, numbers, booleans and nothing; whatever else they are is an error."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml

from quasir.core.formatting import escaped, shown
from quasir.errors import RecipeError

__all__ = ["TAG", "Place", "Scalars", "unknown_tag"]

TAG = "tag:yaml.org,2002:"
MOST_DIGITS = 400
READ_AS = {"int": "a number", "float": "a number", "bool": "true or false", "null": "nothing"}


@dataclass
class Place:
    """A file and a line, for messages."""

    file: str
    line: int = 1

    def error(self, message: str) -> RecipeError:
        """Return the error that names this place."""
        return RecipeError(f"{escaped(self.file, 300)}, line {self.line}: {message}")


class Scalars:
    """Reads scalars: texts, numbers, booleans, null. A date is a text."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.loader: Any = yaml.SafeLoader("")

    def key(self, event: Any) -> str:
        """Return a key, which must be a text."""
        kind = self._kind(event)
        self._refuse_surrogates(event.value)
        if kind == "merge":
            raise self.place.error("merge keys (<<) are not read in recipes: write the keys out")
        if kind in READ_AS:
            raw = escaped(event.value)
            raise self.place.error(
                f"YAML reads the key {raw} as {READ_AS[kind]}, but a key is a text: quote it, as "
                f'in "{raw}"'
            )
        return str(event.value)

    def value(self, event: Any) -> Any:
        """Return a value."""
        kind, raw = self._kind(event), event.value
        if kind == "null":
            return None
        if kind not in READ_AS:
            self._refuse_surrogates(raw)
            return raw
        if kind in ("int", "float") and (len(raw) > MOST_DIGITS or _in_another_base(raw)):
            raise self.place.error(self._odd_number(raw))
        node = yaml.ScalarNode(TAG + kind, raw)
        try:
            return getattr(self.loader, f"construct_yaml_{kind}")(node)
        except (ValueError, LookupError, OverflowError) as error:
            raise self.place.error(
                f"{shown(raw)} is not {READ_AS[kind]}, as its tag !!{kind} says: leave the tag out"
            ) from error

    def _refuse_surrogates(self, text: str) -> None:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise self.place.error(
                f"{shown(text)} holds half of a character (a surrogate), which no file can keep: "
                "write the character itself"
            ) from error

    @staticmethod
    def _odd_number(raw: str) -> str:
        if len(raw) > MOST_DIGITS:
            return f"a number of {len(raw):,} characters is too long: quote it if it is a text"
        return (
            f"YAML reads {raw} in base {60 if ':' in raw else 8}: quote it if it is a text, and "
            "write a number in plain digits, without a leading 0"
        )

    def _kind(self, event: Any) -> str:
        """Return the kind of a scalar: int, float, bool, null, str, merge or timestamp."""
        if event.tag is None or event.tag == "!":
            if not event.implicit[0]:
                return "str"
            tag = self.loader.resolve(yaml.ScalarNode, event.value, (True, False))
            return str(tag).removeprefix(TAG)
        kind = str(event.tag).removeprefix(TAG)
        if kind not in {"str", *READ_AS}:
            raise unknown_tag(event.tag, self.place)
        return kind


def _in_another_base(raw: str) -> bool:
    """Return whether YAML 1.1 reads digits as octal (010 is 8) or in base 60 (1:30 is 90)."""
    return ":" in raw or re.fullmatch(r"[-+]?0[0-7_]+", raw) is not None


def unknown_tag(tag: str, place: Place) -> RecipeError:
    """Return the error on a tag that no recipe needs."""
    short = escaped(tag.replace(TAG, "!!"))
    return place.error(
        f"the tag {short} means nothing in a recipe, which holds texts, numbers, lists and "
        "mappings: leave it out"
    )
