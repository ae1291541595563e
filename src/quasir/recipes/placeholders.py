"""Placeholders: ``{question}`` in a recipe stands for a field of a context; nothing is evaluated.

They stand in prompts, chats, sources, the words, strings and patterns of features, the texts that
features compare with, and the words of boosts. In a pattern the field's value is escaped.
``{{question}}`` is the text {question} itself. Each part of a recipe lists its `templates`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from quasir.core.formatting import short_repr
from quasir.errors import InputError, RecipeError
from quasir.recipes.context_file import Context
from quasir.recipes.parts import FIELD, GuideSpec, LanguageSpec, Part, put_fields
from quasir.recipes.schema import Recipe

NAME = "context"
"""The field that a single context fills."""
WORD = re.compile(r"[^\W_]{3,}")
"""A word of a field that is boosted; shorter ones say little."""


def fill(recipe: Recipe, context: Context) -> Recipe:
    """Return the recipe of one context: every field is replaced by its value."""
    return recipe.changed(lambda part: _fill_part(part, context.value))


def fields_of(recipe: Recipe) -> list[str]:
    """Return the names of the fields that a recipe refers to, in the order of their first use."""
    return _names_in(recipe.parts(Part))


def prompt_fields(recipe: Recipe) -> list[str]:
    """Return what looks like a field in the texts that the models of a recipe are given."""
    parts = chain(recipe.base.parts(Part), recipe.proposal.parts(Part))
    return _names_in(part for part in parts if not isinstance(part, GuideSpec))


def _names_in(parts: Iterable[Part]) -> list[str]:
    names: dict[str, None] = {}
    for part in parts:
        _fill_part(part, lambda name: names.setdefault(name) or "x")
    return list(names)


def refuse_missing(recipe: Recipe, contexts: list[Context]) -> None:
    """Refuse contexts that lack a field, naming the line, and a recipe that refers to none."""
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


def fill_one(recipe: Recipe, context: str) -> Recipe:
    """Return a recipe with its one field filled in; refuse none, several, or an empty context."""
    if not context.strip() or f"{{{NAME}}}" in context:
        raise RecipeError(
            f"the context is {short_repr(context)}: it must be a text, and cannot have {{{NAME}}} "
            "in it."
        )
    names = fields_of(recipe)
    if not names:
        raise RecipeError(
            f"a context is given, but the recipe has no field {{{NAME}}} to put it in: leave "
            "--context out, or write the field into a prompt, a source or a feature."
        )
    if len(names) > 1:
        raise RecipeError(
            f"the recipe has the fields {', '.join(f'{{{name}}}' for name in names)}, and one "
            "context is a text for one field: give a file with all of them by --contexts."
        )
    return fill(recipe, Context(0, {names[0]: context}, "--context"))


def check_filled(recipe: Recipe) -> None:
    """Refuse a recipe that needs a context and has none: it would draw for the field's name."""
    if NAME in fields_of(recipe):
        raise RecipeError(
            f"the recipe needs a context, since {{{NAME}}} stands in it: give one with "
            "--context TEXT, or a file of them with --contexts."
        )


def _fill_part(part: Part, value: Callable[[str], str]) -> dict[str, Any]:
    """Return the new texts of one part."""
    new: dict[str, Any] = {}
    for name, escape in part.templates.items():
        text = getattr(part, name)
        if isinstance(text, str):
            new[name] = put_fields(text, value, escape)
        elif text is not None:
            new[name] = [put_fields(one, value, escape) for one in text]
    if isinstance(part, LanguageSpec):
        _refuse_fields(part)
    if isinstance(part, GuideSpec) and part.boost is not None:
        words = {word: old for old in part.boost for word in _boosted(old, value)}
        factors = part.boost if isinstance(part.boost, dict) else None
        new["boost"] = (
            list(words) if factors is None else {word: factors[old] for word, old in words.items()}
        )
    return new


def _boosted(word: str, value: Callable[[str], str]) -> list[str]:
    """Return the words that a boost names: a field alone stands for the words of its value."""
    text = put_fields(word, value)
    field = FIELD.fullmatch(word)
    return (WORD.findall(text) if field and not field[1] else []) or [text]


def _refuse_fields(language: LanguageSpec) -> None:
    for kind in ("json_schema", "grammar"):
        found = FIELD.search(str(getattr(language, kind) or ""))
        if found and not found[1]:
            raise InputError(
                f"a {kind} holds {found[0]}, but fields are not replaced there: use a regex or a "
                "choice, or write it as text with doubled braces elsewhere."
            )
