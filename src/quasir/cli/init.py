"""`quasir init`: a commented recipe from the answers to a few questions."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument

from quasir import recipes
from quasir.cli.options import Json, nameable
from quasir.core.files import make_folder, write_text
from quasir.core.formatting import command
from quasir.errors import InputError
from quasir.recipes.explain import comment
from quasir.recipes.one_line import write_recipe

KINDS = {
    "word": "Word or phrase",
    "regex": "Expression that the whole text matches",
    "schema": "File of the JSON schema",
    "choice": "Answers, separated by commas",
    "classifier": "MODEL:LABEL, as in quasir/sentiment:POSITIVE",
}
"""Constraint -> the question about it."""


def init(
    file: Annotated[
        Path | None, Argument(metavar="FILE", help="The recipe to write.", callback=nameable)
    ] = None,
    json: Json = False,
) -> None:
    """Ask a few questions and write a commented recipe.

    The questions are about the model, the prompt or chat, the constraint, and the guarantee; an
    empty answer takes what stands in brackets. Answers can be piped, one per line. A file that
    exists is not overwritten.

    Example: quasir init coffee.yaml
    """
    file = file or Path(_ask("File of the recipe", "recipe.yaml"))
    if file.exists():
        raise InputError(f"{file} exists already, and is not overwritten: give another name.")
    base = _ask("Model, or URL of a server", "quasir/smollm2")
    prompt = _ask("Prompt that the texts go on from (empty: none)", "")
    chat = "" if prompt else _ask("Or the message of a chat that they answer (empty: none)", "")
    kind = _ask(f"Constraint: {', '.join(KINDS)}", "word", _kind)
    value = _ask(KINDS[kind], None)
    constraints: dict[str, dict[str, Any]] = {
        "word": {"contains": [value]},
        "classifier": {"classifier": [value]},
        "schema": {"schema": Path(value)},
    }
    given = constraints.get(kind, {kind: value})
    mean = _ask("Share of the texts that meet it (1: every text)", 1.0, _share)
    tvd = _ask("TVD to guarantee with 95 % confidence", 0.1, _share)
    plain = write_recipe(base, prompt=prompt or None, chat=chat or None, tvd=tvd, **given)
    plain["want"] = dict.fromkeys(plain["want"], mean)
    if mean < 1:  # a mask has none of the other texts
        plain.pop("proposal", None)
    recipe = recipes.from_dict(plain)
    make_folder(file.parent)
    write_text(file, comment(recipe))
    print(
        jsonlib.dumps({"recipe": str(file)})
        if json
        else f"{file}: `{command('run', file)}` runs it"
    )


def _ask(question: str, default: Any, check: Callable[[Any], Any] = str) -> Any:
    """Ask on stderr, so that stdout is data, until the answer passes the check."""
    shown = default not in (None, "")
    with redirect_stdout(sys.stderr):  # `err=True` still writes a space to stdout
        return typer.prompt(question, default=default, value_proc=check, show_default=shown)


def _kind(answer: str) -> str:
    if answer not in KINDS:
        raise typer.BadParameter(f"give one of {', '.join(KINDS)}.")
    return answer


def _share(answer: Any) -> float:
    try:
        share = float(answer)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise typer.BadParameter(f"{answer} is no number from 0 to 1.")
    return share
