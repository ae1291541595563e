"""The `quasir` command."""

from __future__ import annotations

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
from quasir.cli.plan import plan
from quasir.cli.recipes import recipes
from quasir.cli.report import report
from quasir.cli.run import run
from quasir.cli.sample import sample
from quasir.cli.tradeoff import tradeoff
from quasir.cli.tune import tune
from quasir.cli.watch import watch
from quasir.core.malloc import keep_freed_memory
from quasir.core.version import __version__
from quasir.errors import QuasirWarning

__all__ = ["app", "main"]

app = typer.Typer(
    name="quasir",
    help="I.i.d. samples from a distribution you can only score, with a certificate.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=EXIT_CODES,
)
for command in (run, draw, watch, plan, tradeoff, sample, report, tune, compare, recipes, doctor):
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
