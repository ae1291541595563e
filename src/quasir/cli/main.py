"""The `quasir` command."""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from quasir.cli.bar import say
from quasir.cli.compare import compare
from quasir.cli.doctor import doctor
from quasir.cli.draw import draw
from quasir.cli.ending import EXIT_CODES, code_of, prepare_streams
from quasir.cli.init import init
from quasir.cli.listing import models, recipes
from quasir.cli.reading import plan, report, sample, tradeoff
from quasir.cli.run import run
from quasir.cli.tune import tune
from quasir.cli.watch import watch
from quasir.core import __version__
from quasir.errors import QuasirWarning

app = typer.Typer(
    name="quasir",
    help="I.i.d. samples from a distribution you can only score, with a certificate.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=EXIT_CODES,
)
READING, MAKING = (watch, plan, tradeoff, sample, report), (tune, compare, recipes, models, doctor)
COMMANDS = tuple(command.__name__ for command in (run, init, draw, *READING, *MAKING))
for command in (run, init, draw, *READING, *MAKING):
    app.command()(command)


@app.callback(invoke_without_command=True)
def version(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", is_eager=True)
    ] = False,
) -> None:
    """I.i.d. samples from a distribution you can only score, with a certificate."""
    if version:
        print(__version__)
        raise typer.Exit


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command, by default that of the command line; end with a documented exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    prepare_streams()
    warnings.showwarning = _tell
    keep_freed_memory()
    sys.exit(code_of(lambda: app(given), given))


def _tell(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Show the warnings of this package, and hide those of libraries."""
    if issubclass(category, QuasirWarning):
        say(f"! {message}")


def keep_freed_memory() -> None:
    """Make glibc, if it is used, reuse freed memory; call it only in a process of our own."""
    # Zeroing the pages of arrays that are mapped anew took 30 % of a training step.
    trim_threshold, mmap_max = -1, -4
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(mmap_max, 0)
        mallopt(trim_threshold, 2**31 - 1)


def document() -> str:
    """Return the documentation page of all commands, made from their `--help`."""
    from typer.testing import CliRunner

    parts = [
        "# Commands\n\nThe output of `quasir COMMAND --help`, written by `make commands`."
        " stdout is data, stderr is progress.\n"
    ]
    for command in COMMANDS:
        shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "80"}).output
        parts.append(f"## quasir {command}\n\n```text\n{shown.strip()}\n```\n")
    return "\n".join(parts)
