"""The command lines of the training scripts: from options to a run, and back to a command."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import torch
from trainer import Settings

from quasir.cli.main import keep_freed_memory

__all__ = ["add_options", "command_of", "read_options"]


def add_options(parser: argparse.ArgumentParser, options: type[Settings]) -> None:
    """Add to a command line the options of every run, and one for each field of `options`."""
    parser.add_argument("--data", type=Path, required=True, help="texts, one per line, gzipped")
    parser.add_argument(
        "--run", type=Path, required=True, help="folder for the checkpoints and the log"
    )
    parser.add_argument("--export", type=Path, help="folder for the trained model")
    parser.add_argument("--every", type=int, default=250, help="steps between two measurements")
    parser.add_argument("--threads", type=int, default=2, help="threads of torch (default 2)")
    for field in dataclasses.fields(options):
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=type(field.default),
            default=field.default,
            help=f"default {field.default}",
        )


def read_options(arguments: argparse.Namespace, options: type[Settings]) -> Any:
    """Return the options of a command line, and set up torch for a run."""
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    names = [field.name for field in dataclasses.fields(options)]
    return options(**{name: getattr(arguments, name) for name in names})


def command_of(script: str, name: str, options: dict[str, Any], usual: Settings, data: str) -> str:
    """Return the command that repeats a run; default options are omitted."""
    changed = {key: value for key, value in options.items() if value != getattr(usual, key)}
    extra = "".join(f" --{key.replace('_', '-')} {value}" for key, value in changed.items())
    return (
        f"python training/{script} {data} \\\n"
        f"    --run runs/{name} --export src/quasir/text/models/{name}{extra}"
    )
