"""A recipe for one context: ``{context}`` in its texts is filled before the run begins.

A conditional target, such as the paraphrases of a sentence (section 3.3), has one recipe for all
contexts. `fields` says where a field may stand.
"""

from __future__ import annotations

from quasir.core.formatting import shown
from quasir.errors import RecipeError
from quasir.recipes.contexts import Context
from quasir.recipes.fields import fields_of, fill
from quasir.recipes.schema import Recipe

__all__ = ["check_filled", "filled"]

NAME = "context"


def filled(recipe: Recipe, context: str) -> Recipe:
    """Return a recipe with its one field filled in.

    Raises
    ------
    RecipeError
        If the recipe has no field or several, or if the context is empty or has the field itself.

    Examples
    --------
    >>> from quasir import recipes
    >>> recipe = recipes.parse("base: {model: m, prompt: 'Q: {context}'}", "r.yaml")
    >>> filled(recipe, "Why?").base.prompt
    'Q: Why?'
    """
    if not context.strip() or f"{{{NAME}}}" in context:
        raise RecipeError(
            f"the context is {shown(context)}: it must be a text, and cannot have {{{NAME}}} in it."
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
