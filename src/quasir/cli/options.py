"""Options that several commands share, and the checks of what is given by them."""

from __future__ import annotations

import errno
import inspect
import math
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer import Argument, Option

from quasir.certificates.choice import check_option
from quasir.cli.bar import Bars
from quasir.core.files import named_folder
from quasir.core.streams import LARGEST_SEED
from quasir.errors import InputError
from quasir.estimation.quantities import GUARANTEED, OPTIONS
from quasir.runs.stored_run import Run

Name = TypeVar("Name", str, os.PathLike[str])
MOST_DRAWS = 10**12  # of a run: the list of its shards would fill the memory
MOST_SAMPLES = 10**9  # they are held in memory


def finite(value: float | None) -> float | None:
    """Return a number, or refuse NaN and infinity, which no range excludes."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is no finite number.")
    return value


def above_0(value: float | None) -> float | None:
    """Return a finite number above 0, or refuse it."""
    if value is not None and not 0 < value < math.inf:
        raise typer.BadParameter(f"{value:g} is not a finite number above 0.")
    return value


def seed_in_range(value: int | None) -> int | None:
    """Refuse a wrong seed: the largest is too long to be shown as a range."""
    if value is not None and not 0 <= value <= LARGEST_SEED:
        raise typer.BadParameter("a seed is a whole number from 0 to 2**128 - 1.")
    return value


def nameable(value: Name) -> Name:
    """Return the name of a file or folder, or refuse one that is too long for any."""
    if value is None:  # an option that was not given
        return value
    try:
        os.stat(value)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise typer.BadParameter(
                f"{os.fspath(value)[:40]!r}... has more characters than a file's name can have."
            ) from error
    except ValueError as error:  # a null character
        raise typer.BadParameter(f"{os.fspath(value)[:40]!r} is no name of a file.") from error
    return value


Json = Annotated[bool, Option("--json", help="Print one JSON document on stdout.")]
SEED = "Replaces the recipe's seed; a run keeps its own."
Seed = Annotated[int | None, Option("--seed", metavar="INTEGER", help=SEED, callback=seed_in_range)]
DRAWS = "Draws in all; replaces the recipe's number."
Draws = Annotated[int | None, Option("--draws", min=1, max=MOST_DRAWS, help=DRAWS)]
CONTEXT = "Fills the one field of the recipe, {context}, such as a question to paraphrase."
Context = Annotated[str | None, Option("--context", help=CONTEXT)]
OUT = "Folder of the run; by default runs/ and the recipe's name."
Out = Annotated[Path | None, Option("--out", help=OUT, parser=named_folder, metavar="<path>")]
Budget = Annotated[
    str | None,
    Option("--budget", help="Draws or time (4min) of the search for a proposal, if any."),
]
AllowCode = Annotated[
    bool, Option("--allow-code", help="Allow the recipe to run its own Python features.")
]
RECIPE = "A built-in recipe, a YAML file, or a run's folder."
RecipeName = Annotated[str, Argument(metavar="RECIPE", help=RECIPE, callback=nameable)]
STREAM = "Read shard by shard, to save memory; automatic from 20 million draws."
Stream = Annotated[bool, Option("--stream", help=STREAM)]
CONTEXTS = "A file of contexts (.jsonl, .txt, .csv, .parquet): the recipe is run for each."
Contexts = Annotated[Path | None, Option("--contexts", help=CONTEXTS, callback=nameable)]
Column = Annotated[str | None, Option("--column", help="The one field of the contexts to take.")]
NUMBER = "Number of a context, in a run over contexts; by default all."
ContextNumber = Annotated[int | None, Option("--context", min=0, help=NUMBER)]
RunFolder = Annotated[Path, Argument(metavar="RUN", help="The folder of a run.", callback=nameable)]
FLAGS = ", ".join(f"--{name.replace('_', '-')}" for name in GUARANTEED)
ASKED = {name: option.help for name, option in OPTIONS.items()} | {
    "confidence": f"With {FLAGS}: choose the beta that guarantees it, e.g. 0.95."
}
"""The options that choose beta -> their help."""


def with_choice(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that choose beta; it receives them as the dictionary `asked`."""
    signature = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.name != "asked":
            parameters.append(parameter)
            continue
        for name, text in ASKED.items():
            kind = Annotated[float | None, Option(help=text, callback=finite)]
            parameters.append(parameter.replace(name=name, annotation=kind, default=None))

    @wraps(command)
    def called(**given: Any) -> None:
        command(asked={name: given.pop(name) for name in ASKED}, **given)

    vars(called)["__signature__"] = signature.replace(parameters=parameters)
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


def opened(run: Path, context: int | None = None, stream: bool = False) -> Run:
    """Open a run; refuse a context where it has none."""
    made = Run(run, stream=stream or None, reporter=Bars())
    if context is not None and not made.over_contexts:
        raise InputError(f"{run} is no run over contexts: leave --context out.")
    return made


def asked_of(run: Run, asked: dict[str, float | None]) -> tuple[dict[str, float], bool]:
    """Return what was asked for, or what the recipe asks for, and whether it is the recipe."""
    given = {name: value for name, value in asked.items() if value is not None}
    confidence = given.pop("confidence", None)
    if len(given) > 1:
        raise InputError(f"give one of {' and '.join(given)}: one chooses beta.")
    for name, value in given.items():
        check_option(name, value)
    if confidence is not None:
        if not 0 < confidence < 1:
            raise InputError(f"--confidence is {confidence:g}, but must lie between 0 and 1.")
        if not set(given) & set(GUARANTEED):
            raise InputError(f"--confidence goes with what can be guaranteed: {FLAGS}.")
        given["confidence"] = confidence
    if given:
        return given, False
    if not run.has_recipe:
        raise InputError(
            f"{run.folder} has no recipe to choose beta by: give one of {', '.join(OPTIONS)}."
        )
    return run.recipe.choose.asked, True
