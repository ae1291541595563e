"""The context of a recipe: ``{context}`` in its texts, filled before the run begins.

A conditional target, such as the paraphrases of a sentence (section 3.3), has one recipe for all
contexts. The texts of prompts, sources, round trips and similarities may have the field. As a word
of a guide's boost it stands for the words of the context: ``boost: {"{context}": 100}``.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from quasir.core.formatting import shown
from quasir.errors import RecipeError
from quasir.features.sentence_models import is_installed
from quasir.recipes.guide_schema import GuideSpec
from quasir.recipes.schema import FeatureSpec, Recipe, Source

__all__ = ["check_filled", "filled", "with_installed"]

FIELD = "{context}"
OTHER = re.compile(r"\{[A-Za-z_]\w*\}")
"""What looks like a field; braces that hold anything else are text."""
WORD = re.compile(r"[^\W_]{3,}")
"""A word of the context that is boosted; shorter ones say little."""


def filled(recipe: Recipe, context: str) -> Recipe:
    """Return a recipe with its context filled in.

    Raises
    ------
    RecipeError
        If no text has the field, if a text has another one, or if the context is empty or has the
        field itself.
    """
    if not context.strip() or FIELD in context:
        raise RecipeError(
            f"the context is {shown(context)}: it must be a text, and cannot have {FIELD} in it."
        )
    texts = _texts(recipe)
    if not any(FIELD in text for text in texts):
        raise RecipeError(
            f"a context is given, but no text of the recipe has {FIELD} to put it in: leave "
            "--context out, or write the field into a prompt, a source or a similarity."
        )
    for text in texts:
        others = [field for field in OTHER.findall(text) if field != FIELD]
        if others:
            raise RecipeError(
                f"{shown(text)} has the field {others[0]}, but a recipe has only {FIELD}."
            )
    return _mapped(recipe, lambda text: text.replace(FIELD, context), WORD.findall(context))


def check_filled(recipe: Recipe) -> None:
    """Refuse a recipe that needs a context and has none: it would draw for the field's name."""
    for text in _texts(recipe):
        if FIELD in text:
            raise RecipeError(
                f"the recipe needs a context, since a text of it is {shown(text)}: give one with "
                '`quasir run RECIPE --context "TEXT"`.'
            )


def with_installed(recipe: Recipe) -> Recipe:
    """Return a recipe whose similarities name one model: the package under `instead`, if there."""

    def chosen(spec: FeatureSpec) -> FeatureSpec:
        near = spec.similarity
        if near is None or near.instead is None:
            return spec
        (package, above), *_ = near.instead.items()
        kept = {"model": package, "above": above} if is_installed(package) else {}
        near = near.model_copy(update={**kept, "instead": None})
        return spec.model_copy(update={"similarity": near})

    named = {name: chosen(spec) for name, spec in recipe.features.items()}
    return recipe.model_copy(update={"features": named})


def _texts(recipe: Recipe) -> list[str]:
    """Return the texts that may have the field."""
    found: list[str] = []

    def note(text: str) -> str:
        found.append(text)
        return text

    _mapped(recipe, note, [FIELD])
    return found


def _mapped(recipe: Recipe, change: Callable[[str], str], words: list[str]) -> Recipe:
    """Return a recipe with each of these texts changed, and `words` for the field in boosts."""

    def within(source: Source) -> Source:
        update: dict[str, object] = {
            name: change(text)
            for name in ("prompt", "source")
            if (text := getattr(source, name)) is not None
        }
        if source.round_trip is not None:
            text = change(source.round_trip.text)
            update["round_trip"] = source.round_trip.model_copy(update={"text": text})
        if source.mixture is not None:
            update["mixture"] = [within(part) for part in source.mixture]
        if source.guide is not None and FIELD in (source.guide.boost or ()):
            update["guide"] = _boosted(source.guide, words)
            change(FIELD)
        return source.model_copy(update=update)

    def of(spec: FeatureSpec) -> FeatureSpec:
        if spec.similarity is None:
            return spec
        near = spec.similarity.model_copy(update={"text": change(spec.similarity.text)})
        return spec.model_copy(update={"similarity": near})

    return recipe.model_copy(
        update={
            "base": within(recipe.base),
            "proposal": within(recipe.proposal),
            "features": {name: of(spec) for name, spec in recipe.features.items()},
        }
    )


def _boosted(guide: GuideSpec, words: list[str]) -> GuideSpec:
    """Return a guide that boosts `words` instead of the field, each with the field's factor."""
    if not isinstance(guide.boost, dict):
        raise RecipeError(f'{FIELD} under boost needs a factor, as in {{"{FIELD}": 100}}.')
    if not words:
        raise RecipeError("the context has no word of three letters that a guide could boost.")
    boost: dict[str, float] = {}
    for name, factor in guide.boost.items():
        boost |= dict.fromkeys(words, factor) if name == FIELD else {name: factor}
    return guide.model_copy(update={"boost": boost})
