"""`quasir recipes`: the built-in recipes, and what a recipe means."""

from __future__ import annotations

import json as jsonlib
from typing import Annotated

import typer

from quasir.cli.options import Json, nameable
from quasir.recipes import BUILT_IN, find, read
from quasir.recipes.describe import terms_of
from quasir.recipes.explain import explain, explain_text


def recipes(
    what: Annotated[
        str | None,
        typer.Argument(metavar="[show]", help="`show` prints the YAML of a recipe."),
    ] = None,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", callback=nameable)] = None,
    explained: Annotated[
        str | None,
        typer.Option(
            "--explain",
            metavar="NAME",
            help="Say what each setting of a recipe means, defaults too.",
            callback=nameable,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List the built-in recipes, show one, or explain one.

    The list has the terms of the models' weights. `quasir recipes show NAME` prints a recipe's
    YAML; --explain says for each setting which value is in force, and whether it is given or a
    default. NAME is a built-in recipe, a YAML file, or a run's folder.

    Example: quasir recipes show scientists > mine.yaml

    Example: quasir recipes --explain mine.yaml
    """
    if explained is not None:
        if what is not None:
            raise typer.BadParameter("give --explain NAME alone")
        recipe = read(find(explained))
        settings = [one.to_dict() for one in explain(recipe)]
        print(jsonlib.dumps(settings, indent=2) if json else explain_text(recipe, explained))
        return
    if what is None:
        listed = {key: read(path) for key, path in BUILT_IN.items()}
        if json:
            told = {
                key: {"about": recipe.about, "terms": terms_of(recipe)}
                for key, recipe in listed.items()
            }
            print(jsonlib.dumps(told, indent=2))
            return
        width = max(map(len, listed))
        for key, recipe in listed.items():
            terms = "; ".join(terms_of(recipe))
            print(f"{key:<{width}}  {recipe.about}{f' Weights: {terms}.' if terms else ''}")
        return
    if what != "show" or name is None:
        raise typer.BadParameter("give nothing, or `show NAME`")
    path = find(name)
    recipe = read(path)
    if json:
        plain = recipe.model_dump(by_alias=True, exclude_defaults=True, mode="json")
        print(jsonlib.dumps(plain, indent=2, ensure_ascii=False))
    else:
        print(path.read_text(encoding="utf-8"), end="")
