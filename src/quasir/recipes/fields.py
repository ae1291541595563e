"""Fields of contexts in a recipe: ``{question}`` stands for a text, and nothing is evaluated.

Fields stand in prompts, chats, sources, the words, strings and patterns of features, the texts
that features compare with, and the words of boosts. In a pattern the field's value is escaped.
``{{question}}`` is the text {question} itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from quasir.errors import InputError
from quasir.recipes.contexts import Context
from quasir.recipes.guide_schema import GuideSpec, LanguageSpec
from quasir.recipes.placeholders import FIELD, Fill, escaped_for_language
from quasir.recipes.schema import FeatureSpec, Recipe, Source

__all__ = ["fields_of", "fill", "prompt_fields", "refuse_missing"]

Value = Callable[[str], str]
WORD = re.compile(r"[^\W_]{3,}")
"""A word of a field that is boosted; shorter ones say little."""


def fill(recipe: Recipe, context: Context) -> Recipe:
    """Return the recipe of one context: every field is replaced by its value.

    Examples
    --------
    >>> from quasir import recipes
    >>> recipe = recipes.parse("base: {model: m, prompt: 'Q: {question}'}", "r.yaml")
    >>> fill(recipe, Context(0, {"question": "Why?"})).base.prompt
    'Q: Why?'
    """
    return _filled(recipe, context.value)


def fields_of(recipe: Recipe) -> list[str]:
    """Return the names of the fields that a recipe refers to, in the order of their first use."""
    names: dict[str, None] = {}

    def note(name: str) -> str:
        names.setdefault(name)
        return "x"

    _filled(recipe, note)
    return list(names)


def prompt_fields(recipe: Recipe) -> list[str]:
    """Return what looks like a field in the texts that the models of a recipe are given."""
    names: dict[str, None] = {}

    def note(name: str) -> str:
        names.setdefault(name)
        return "x"

    for source in (recipe.base, recipe.proposal):
        _source(source.model_copy(update={"guide": None}), Fill(note))
    return list(names)


def refuse_missing(recipe: Recipe, contexts: list[Context]) -> None:
    """Refuse contexts that lack a field, and a recipe that refers to none.

    Raises
    ------
    InputError
        The message names the line of the first such context.
    """
    names = fields_of(recipe)
    if not names:
        there = ", ".join(f"{{{name}}}" for name in contexts[0].fields)
        raise InputError(
            f"the recipe refers to no field of the contexts, such as {there}, so all contexts "
            "would give the same: put a field into a prompt, a chat, a source or a feature."
        )
    for context in contexts:
        for name in names:
            context.value(name)


def _filled(recipe: Recipe, value: Value) -> Recipe:
    into = Fill(value)
    return recipe.model_copy(
        update={
            "base": _source(recipe.base, into),
            "proposal": _source(recipe.proposal, into),
            "features": {name: _feature(spec, into) for name, spec in recipe.features.items()},
        }
    )


def _changed(part: Any, **update: Any) -> Any:
    """Return a part with new values, where they differ: what was left out stays left out."""
    different = {name: new for name, new in update.items() if getattr(part, name) != new}
    return part.model_copy(update=different) if different else part


def _source(source: Source, into: Fill) -> Source:
    trip, chat = source.round_trip, source.chat
    made: Source = _changed(
        source,
        prompt=into(source.prompt),
        source=into(source.source),
        chat=None
        if chat is None
        else [_changed(part, content=into(part.content)) for part in chat],
        round_trip=None if trip is None else _changed(trip, text=into(trip.text)),
        mixture=None
        if source.mixture is None
        else [_source(part, into) for part in source.mixture],
        guide=None if source.guide is None else _guide(source.guide, into),
    )
    return made


def _guide(guide: GuideSpec, into: Fill) -> GuideSpec:
    boost: Any = guide.boost
    if isinstance(boost, dict):
        boost = {new: factor for word, factor in boost.items() for new in _boosted(word, into)}
    elif boost is not None:
        boost = list(dict.fromkeys(new for word in boost for new in _boosted(word, into)))
    made: GuideSpec = _changed(guide, boost=boost)
    return made


def _boosted(word: str, into: Fill) -> list[str]:
    """Return the words that a boost names: a field alone stands for the words of its value."""
    text = into(word)
    field = FIELD.fullmatch(word)
    return (WORD.findall(text) if field and not field[1] else []) or [text]


def _feature(spec: FeatureSpec, into: Fill) -> FeatureSpec:
    similar, language = spec.similarity, spec.language
    made: FeatureSpec = _changed(
        spec,
        words=None if spec.words is None else [into(word) for word in spec.words],
        contains=into(spec.contains),
        regex=into(spec.regex, re.escape),
        similarity=None if similar is None else _changed(similar, text=into(similar.text)),
        language=None if language is None else _language(language, into),
    )
    return made


def _language(language: LanguageSpec, into: Fill) -> LanguageSpec:
    for kind in ("json_schema", "grammar"):
        found = FIELD.search(str(getattr(language, kind) or ""))
        if found and not found[1]:
            raise InputError(
                f"a {kind} holds {found[0]}, but fields are not replaced there: use a regex or a "
                "choice, or write it as text with doubled braces elsewhere."
            )
    made: LanguageSpec = _changed(
        language,
        regex=into(language.regex, escaped_for_language),
        choice=None if language.choice is None else [into(text) for text in language.choice],
    )
    return made
