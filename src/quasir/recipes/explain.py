"""Every setting of a recipe in words: its value in force, and whether it is given or a default."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from quasir.core.formatting import escaped, wrapped
from quasir.recipes.describe import describe_choice
from quasir.recipes.parsing import dump
from quasir.recipes.parts import FeatureSpec, Part
from quasir.recipes.schema import Choice, Recipe, Source

LONGEST = 300  # characters of a value; a table or a schema may have many
MEANINGS = Path(__file__).with_name("meanings.yaml")
OFFERED = {
    "Source": ("dtype", "device", "prompt", "temperature", "top_k", "top_p"),
    "LanguageSpec": ("complete",),
    "ClassifierSpec": ("above", "value"),
    "Choice": ("confidence",),
    "Recipe": ("want", "proposal", "draws", "fit", "max_tokens", "seed", "choose", "samples"),
}
"""Kind of part -> the fields that are listed where they are left out."""


@dataclass(frozen=True)
class Setting:
    """A field of a recipe: its value in force, what it means, and whether it is given."""

    field: str
    value: str
    meaning: str
    given: bool

    def __str__(self) -> str:
        return f"{self.value}{f' ({self.meaning})' if self.meaning else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        return dict(vars(self))


@cache
def meanings() -> dict[str, dict[str, str]]:
    """Return what the fields of each kind of part mean, where its docstring does not say it."""
    read: dict[str, dict[str, str]] = yaml.safe_load(MEANINGS.read_text(encoding="utf-8"))
    return read


def explain(recipe: Recipe) -> list[Setting]:
    """Return every setting of a recipe, the defaults that were left out among them.

    Examples
    --------
    >>> from quasir import recipes
    >>> settings = explain(recipes.from_dict({"base": "quasir/biographies", "want": {"female": 1}}))
    >>> next(str(one) for one in settings if one.field == "draws")
    '20000 (draws of the proposal for the trade-off)'
    """
    return list(_settings(recipe, "", True))


def explain_text(recipe: Recipe, name: str) -> str:
    """Return the settings of a recipe as text, in 80 columns."""
    settings = explain(recipe)
    width = min(max(len(one.field) for one in settings), 24)
    lines: list[str] = []
    for given, heading in ((True, "given:"), (False, "left out, so the default holds:")):
        lines.append(heading if lines else f"{name}\n{heading}")
        for one in settings:
            if one.given == given:
                lines += wrapped(f"{one.field:<{width}}  {one}", "  ", " " * (width + 4))
    return "\n".join(lines)


def comment(recipe: Recipe) -> str:
    """Return a recipe as YAML, with a comment on each field and on what is left out."""
    lines: list[str] = []
    words = meanings()["Recipe"]
    for line in dump(recipe).splitlines():
        field = line.partition(":")[0]
        if field in words and not line.startswith((" ", "-")):
            lines += wrapped(words[field], "# ", "# ")
        lines.append(line)
    written = yaml.safe_load("\n".join(lines))
    lines += ["", "# Left out, so the default holds:"]
    for one in explain(recipe):
        if not one.given and one.field not in written:
            lines += wrapped(f"{one.field}: {one}", "# ", "#   ")
    return "\n".join(lines) + "\n"


def _settings(part: Part, path: str, given: bool) -> Iterator[Setting]:
    kind = type(part).__name__
    words = meanings().get(kind, {})
    offered = OFFERED.get(kind, ())
    if isinstance(part, Source) and (path != "base." or not (part.model or part.server)):
        offered = ()  # a proposal takes what it leaves out from the base
    for name, field in type(part).model_fields.items():
        value, written = getattr(part, name), field.alias or name
        there = given and name in part.model_fields_set
        label, meaning = path + written, _phrase(words.get(written, ""))
        if isinstance(value, Choice):
            yield Setting(label, _text(value.asked), describe_choice(value), there)
            if value.confidence is None:
                yield from _settings(value, f"{label}.", False)
        elif isinstance(value, Source) and value.is_base:
            yield Setting(label, "base", meaning, there)
        elif isinstance(value, Part):
            yield from _settings(value, f"{label}.", there)
        elif name == "features":
            for key, feature in value.items():
                yield from _settings(feature, f"features.{key}.", given)
        elif kind == "Choice":
            if name in offered:
                yield Setting(label, _text(value), meaning, False)
        elif name in offered or (value is not None and (there or name == "named")):
            yield Setting(label, _text(value), meaning, there)
    if isinstance(part, FeatureSpec) and part.case is None and part.kind in CASE:
        yield Setting(f"{path}case", _text(CASE[part.kind]), _phrase(words["case"]), False)


CASE = {"words": False, "contains": True, "search": True}
"""Kind of a feature of words -> whether upper and lower case differ by default."""


def _phrase(sentence: str) -> str:
    """Return a sentence of the meanings as it stands in brackets."""
    text = sentence.replace("`", "").removesuffix(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def _text(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], Part):
        value = [one.model_dump(exclude_unset=True, mode="json") for one in value]
    if value is None or value == {}:
        return "none"
    if isinstance(value, str):
        return escaped(value, LONGEST)
    text: str = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**6)
    return escaped(text.removesuffix("\n").removesuffix("\n..."), LONGEST)
