"""A recipe in words: what it asks for, every setting with its default, the terms of its models."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from quasir.core.formatting import escaped, wrapped
from quasir.estimation.quantities import OPTIONS
from quasir.recipes.parsing import dump
from quasir.recipes.parts import FeatureSpec, Part
from quasir.recipes.schema import SEARCHED_FROM, Choice, Recipe, Source

MODELS = Path(__file__).parents[1] / "text" / "models"
LINE = re.compile(r"^(?:terms|license): *(.+)$", re.MULTILINE)
UNSAID = "other"  # what a card has as its licence where it states terms in words
LONGEST = 300  # characters of a value; a table or a schema may have many
MEANINGS = Path(__file__).with_name("meanings.yaml")
OFFERED = {
    "Source": ("dtype", "device", "prompt", "temperature", "top_k", "top_p"),
    "LanguageSpec": ("complete",),
    "ClassifierSpec": ("above", "value"),
    "Choice": ("confidence",),
    "Recipe": ("want", "proposal", "draws", "fit", "max_tokens", "seed", "choose", "samples"),
}  # kind of part -> the fields that are listed where they are left out
SEARCHED = f"a search for q(x) comes first; none in a run of fewer than {SEARCHED_FROM:,} draws"


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
    """Return every setting of a recipe, the defaults that were left out among them."""
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
        elif isinstance(part, Recipe) and name == "proposal" and part.searched_by_default:
            yield Setting(label, "auto", SEARCHED, False)
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


def asked(recipe: Recipe) -> list[str]:
    """Return sentences that say what a recipe asks for."""
    said = [recipe.about] if recipe.about else []
    base = recipe.base
    name = base.model or (f"Poisson({base.poisson:g})" if base.poisson else "a table of items")
    if base.server is not None:
        name = f"{base.model or 'the model'} of the server at {base.server.url}"
    prompt = f" after the prompt {base.prompt!r}" if base.prompt else ""
    prompt = f" in the chat {_chat(base)}" if base.chat else prompt
    texts = base.model or base.server
    limit = f", texts of at most {recipe.max_tokens} tokens" if texts else ""
    said.append(f"The base is {name}{prompt}{limit}.")
    for feature, moment in recipe.want.items():
        if feature in recipe.pointwise:
            said.append(f"{feature} is {'true' if moment else 'false'} for every sample.")
        elif feature in recipe.fitted:
            said.append(
                f"The mean of {feature} should be {moment:g}, by a tilt with lambda = "
                f"{recipe.fitted[feature]:.4g}."
            )
    for feature, coefficient in recipe.coefficients.items():
        said.append(f"{feature} is rewarded: the base is tilted by exp({coefficient:g} phi).")
    watched = [f for f in recipe.features if f not in recipe.want and f not in recipe.coefficients]
    if watched:
        said.append(f"Also measured: {', '.join(watched)}.")
    searched = recipe.searched_by_default
    said.append(f"Proposals come from {FOUND if searched else _proposal(recipe.proposal)}.")
    said.append(f"Beta is chosen for {describe_choice(recipe.choose)}.")
    return said


def _chat(source: Source) -> str:
    return " / ".join(f"{part.role}: {part.content!r}" for part in source.chat or [])


SAID = {
    "adapter": "the adapter {}",
    "prompt": "the prompt {!r}",
    "source": "the source {!r}",
    "temperature": "temperature {:g}",
    "top_k": "top-k {}",
    "top_p": "top-p {:g}",
    "mask": "the mask {}",
}  # setting of a proposal -> how it is said, where it is not the default


FOUND = "what a search will find"


def _proposal(source: Source) -> str:
    if source.searched:
        return FOUND
    if (guide := source.guide) is not None:
        inner = _proposal(source.model_copy(update={"guide": None, "share": None}))
        share = f", {source.share:.3g} of the draws without it" if source.share else ""
        parts = [f"the language of {name}" for name in guide.mask or []]
        parts += [f"{name} is boosted" for name in guide.boost or []]
        return f"{inner} with a guide ({guide.file or ', '.join(parts)}){share}"
    if source.mixture is not None:
        total = sum(part.weight for part in source.mixture)
        parts = [f"{part.weight / total:.3g} of {_proposal(part)}" for part in source.mixture]
        return f"a mixture: {', '.join(parts)}"
    if source.poisson is not None:
        return f"Poisson({source.poisson:g})"
    if source.table is not None:
        return f"a table of {len(source.table)} items"
    if source.round_trip is not None:
        return f"the round trip of {source.round_trip.text!r}"
    name = source.model or ("the base" if source.server is None else "the model")
    name = name if source.server is None else f"{name} of the server at {source.server.url}"
    values = {key: getattr(source, key) for key in SAID}
    said = [SAID[key].format(value) for key, value in values.items() if value not in (None, 1.0)]
    said += [f"the chat {_chat(source)}"] if source.chat else []
    said += [f"a bias of {len(source.logit_bias)} tokens"] if source.logit_bias else []
    return f"{name} with {', '.join(said)}" if said else name


def describe_choice(choice: Choice) -> str:
    """Return what beta is chosen for, in words."""
    name, value = next(iter(choice.asked.items()))
    said = OPTIONS[name].asks.format(value)
    sure = choice.confidence
    return said if sure is None else f"{said}, guaranteed with confidence {sure:g}"


def terms_of(recipe: Recipe) -> list[str]:
    """Return the terms of the weights, each once; an unknown or external model has none."""
    fields = [vars(part).get(name) for part in recipe.parts(Part) for name in ("model", "adapter")]
    found = [terms_of_model(name) for name in dict.fromkeys(fields) if name is not None]
    return list(dict.fromkeys(terms for terms in found if terms))


def terms_of_model(name: str) -> str | None:
    """Return the terms of a built-in model's weights, from its card."""
    card = MODELS / name.removeprefix("quasir/") / "README.md"
    if not name.startswith("quasir/") or not card.is_file():
        return None
    said = LINE.findall(card.read_text(encoding="utf-8"))[:2]
    return next((terms for terms in reversed(said) if terms != UNSAID), None)
