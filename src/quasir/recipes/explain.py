"""Every setting of a recipe in words: its value in force, and whether it is given or a default."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from quasir.core.formatting import wrapped
from quasir.recipes.describe import describe_choice
from quasir.recipes.parsing import dump
from quasir.recipes.parts import FeatureSpec, Part
from quasir.recipes.schema import Choice, Recipe, Source

MEANINGS = {
    "Recipe": {
        "want": "the mean of each feature; 1 or 0 of a yes-or-no feature holds for every text",
        "lambda": "tilts that are given: the base is multiplied by exp(lambda * feature)",
        "fitted": "lambda of each wanted mean, as fitted",
        "proposal": "what draws the texts; the base if it is left out",
        "draws": "texts that are drawn and scored for the trade-off",
        "fit": "draws of the base that lambda is fitted on, where a mean is wanted",
        "max_tokens": "the length limit of a text",
        "seed": "the same seed gives the same draws",
        "choose": "which beta the samples are taken at",
        "samples": "samples that are kept; over contexts, of each if given, else shared",
        "over": "over contexts: whether a wanted mean holds over all of them, or in each",
    },
    "Source": {
        "model": "a folder, a built-in model or a hub id",
        "server": "the address of a server that has loaded the model",
        "dtype": "the numbers that the model computes with",
        "device": "where the model runs; a GPU is taken if there is one",
        "quantization": "4bit or 8bit weights",
        "trust_remote_code": "whether code that comes with the model may run",
        "prompt": "what the texts go on from",
        "chat": "the messages that the texts answer",
        "temperature": "1 is the model's own distribution; below 1 is sharper",
        "top_k": "if given, only the k most likely tokens at each step",
        "top_p": "if given, only the most likely tokens, up to this mass, at each step",
        "poisson": "the mean of a Poisson distribution",
        "table": "items and their weights",
        "guide": "makes the constraint more likely while a text is drawn",
        "share": "the share of the draws that leaves the guide out",
        "mixture": "each draw comes from one of these",
    },
    "FeatureSpec": {
        "named": "a feature that is built in",
        "words": "true if the text has one of these words",
        "contains": "true if the text has this, as part of a word too",
        "search": "true if this expression matches somewhere in the text",
        "case": "whether upper and lower case differ",
        "python": "a function of yours",
        "length": "how long the text is",
    },
    "LanguageSpec": {
        "regex": "true if the whole text matches this expression",
        "json_schema": "true if the text is JSON of this schema",
        "choice": "true if the text is one of these",
        "complete": "whether a text that is cut at the length limit counts as wrong",
    },
    "ClassifierSpec": {
        "model": "a folder, a built-in classifier or a hub id",
        "label": "the label that is asked for",
        "above": "true if the label's value is above this",
        "value": "what the classifier gives: a probability or a logit",
    },
    "Choice": {"confidence": "how sure the choice is; none: beta is chosen by an estimate"},
}
"""Kind of part -> field -> what it means; a default is listed only where it is named here."""
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


def explain(recipe: Recipe) -> list[Setting]:
    """Return every setting of a recipe, the defaults that were left out among them.

    Examples
    --------
    >>> from quasir import recipes
    >>> settings = explain(recipes.from_dict({"base": "quasir/biographies", "want": {"female": 1}}))
    >>> next(str(one) for one in settings if one.field == "draws")
    '20000 (texts that are drawn and scored for the trade-off)'
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
    of_base = "the distribution that is constrained; left-out settings are listed below"
    words = {
        "base": of_base,
        "features": "what can be true of a text, or measured",
        **MEANINGS["Recipe"],
    }
    for line in dump(recipe).splitlines():
        field = line.partition(":")[0]
        if field in words and not line.startswith((" ", "-")):
            lines.append(f"# {words[field]}")
        lines.append(line)
    written = yaml.safe_load("\n".join(lines))
    lines += ["", "# Left out, so the default holds:"]
    for one in explain(recipe):
        if not one.given and one.field not in written:
            lines += wrapped(f"{one.field}: {one}", "# ", "#   ")
    return "\n".join(lines) + "\n"


def _settings(part: Part, path: str, given: bool) -> Iterator[Setting]:
    kind = type(part).__name__
    words = MEANINGS.get(kind, {})
    offered = OFFERED.get(kind, ())
    if isinstance(part, Source) and (path != "base." or not (part.model or part.server)):
        offered = ()  # a proposal takes what it leaves out from the base
    for name, field in type(part).model_fields.items():
        value, written = getattr(part, name), field.alias or name
        there = given and name in part.model_fields_set
        label, meaning = path + written, words.get(written, "")
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
        yield Setting(f"{path}case", _text(CASE[part.kind]), words["case"], False)


CASE = {"words": False, "contains": True, "search": True}
"""Kind of a feature of words -> whether upper and lower case differ by default."""


def _text(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], Part):
        value = [one.model_dump(exclude_unset=True, mode="json") for one in value]
    if value is None or value == {}:
        return "none"
    if isinstance(value, str):
        return value
    text: str = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**6)
    return text.removesuffix("\n").removesuffix("\n...")
