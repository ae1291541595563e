"""`quasir recipes`: the built-in recipes."""

from __future__ import annotations

import json as jsonlib
from typing import Annotated

import typer

from quasir.cli.options import Json, Seed, nameable
from quasir.recipes import BUILT_IN, dump, find, read
from quasir.recipes.describe import terms_of


def recipes(
    what: Annotated[
        str | None,
        typer.Argument(metavar="[show]", help="`show` prints the YAML of a recipe."),
    ] = None,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", callback=lambda name: name and nameable(name))
    ] = None,
    json: Json = False,
    seed: Seed = None,
) -> None:
    """List the built-in recipes with the terms of their models' weights, or show one.

    `quasir recipes show NAME` prints its YAML.

    Example: quasir recipes show scientists > mine.yaml
    """
    if what is None:
        listed = {key: read(path, seed=seed) for key, path in BUILT_IN.items()}
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
    recipe = read(path, seed=seed)
    if json:
        plain = recipe.model_dump(by_alias=True, exclude_defaults=True, mode="json")
        print(jsonlib.dumps(plain, indent=2, ensure_ascii=False))
    else:
        print(path.read_text(encoding="utf-8") if seed is None else dump(recipe), end="")
