"""What pydantic found wrong, in words, with the line."""

from __future__ import annotations

import difflib
from typing import Any

from pydantic import BaseModel, ValidationError

from quasir.core.formatting import escaped, shown
from quasir.errors import RecipeError
from quasir.recipes.guide_schema import GuideSpec, LanguageSpec
from quasir.recipes.schema import (
    Choice,
    FeatureSpec,
    MessageSpec,
    Recipe,
    RoundTripSpec,
    Source,
)
from quasir.recipes.similarity_schema import SimilaritySpec
from quasir.recipes.yaml_scalars import Place
from quasir.recipes.yaml_tree import Node

__all__ = ["in_words"]

MOST = 20
"""Most mistakes to tell at once."""

INSIDE: dict[str, type[BaseModel]] = {
    "base": Source,
    "proposal": Source,
    "mixture": Source,
    "chat": MessageSpec,
    "round_trip": RoundTripSpec,
    "similarity": SimilaritySpec,
    "language": LanguageSpec,
    "guide": GuideSpec,
    "choose": Choice,
}
"""The part of a recipe under each key, for suggestions."""

WANTED = {
    "model_type": "must be a mapping, as in {name: value}",
    "dict_type": "must be a mapping, as in {name: value}",
    "list_type": "must be a list, as in [first, second]",
}


def in_words(error: ValidationError, tree: Node, file: str) -> RecipeError:
    """Return the mistakes that pydantic found as one error, a line each."""
    mistakes = error.errors(include_url=False, include_context=False)
    messages = list(dict.fromkeys(str(_message(m, tree, file)) for m in mistakes[: 5 * MOST]))
    more = len(messages) - MOST + max(0, len(mistakes) - 5 * MOST)
    if more > 0:
        messages = [*messages[:MOST], f"... and {more:,} more mistakes"]
    return RecipeError("\n".join(messages))


def _message(mistake: Any, tree: Node, file: str) -> RecipeError:
    steps = [step for step in mistake["loc"] if step != "[key]"]
    line, node = tree.find(steps)
    place = Place(file, line)
    where = escaped(".".join(str(step) for step in steps), 120) or "recipe"
    if mistake["type"] == "extra_forbidden":
        known = _known(steps)
        close = difflib.get_close_matches(str(steps[-1])[:80], known, 1, cutoff=0.5)
        hint = f"; did you mean {close[0]}?" if close else f"; known are {', '.join(known)}"
        return place.error(f"{where} is not known here{hint}")
    if mistake["type"] == "missing":
        return place.error(f"{where} is missing")
    value = mistake["input"]
    if mistake["type"] == "string_type" and not isinstance(value, (str, dict, list)):
        raw = escaped(node.raw) if node.content == value and node.raw else shown(value)
        return place.error(
            f"{where} must be a text, but YAML reads {raw} as {_read_as(value)}: quote it, as in "
            f'"{raw}"'
        )
    said = mistake["msg"].removeprefix("Value error, ").replace("Input should be", "must be", 1)
    message = WANTED.get(mistake["type"], said)
    given = "" if isinstance(value, (dict, BaseModel)) else f" (given {shown(value)})"
    return place.error(f"{where}: {message}{given}")


def _read_as(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    return "nothing" if value is None else "a number"


def _known(place: list[Any]) -> list[str]:
    """Return the known keys at the place of a wrong one."""
    part: type[BaseModel] = Recipe
    for step in place[:-1]:
        if isinstance(step, str) and step in INSIDE:
            part = INSIDE[step]
        elif step == "features" or (len(place) > 2 and place[0] == "features"):
            part = FeatureSpec if part is Recipe else part
    return [field.alias or name for name, field in part.model_fields.items()]
