"""The traceback of an unforeseen error, in a file that the user can send."""

from __future__ import annotations

import os
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from quasir.core.version import __version__
from quasir.store import MANIFEST

__all__ = ["cache_folder", "run_in", "write_traceback"]


def cache_folder() -> Path:
    """Return the folder for files that belong to no run: in XDG_CACHE_HOME, or ~/.cache."""
    given = os.environ.get("XDG_CACHE_HOME")
    try:
        home = Path(given) if given else Path.home() / ".cache"
    except RuntimeError:  # there is no home
        home = Path(tempfile.gettempdir())
    return home / "quasir"


def run_in(arguments: Sequence[str]) -> Path | None:
    """Return the run that a command line names: an argument, or the folder that it stands for."""
    for argument in arguments:
        _, _, value = argument.rpartition("=") if argument.startswith("--") else ("", "", argument)
        for folder in (Path(value), Path("runs") / Path(value).stem):
            try:
                if value and (folder / MANIFEST).is_file():
                    return folder
            except (OSError, ValueError):  # a name that no file can have
                continue
    return None


def write_traceback(error: BaseException, arguments: Sequence[str]) -> Path | str:
    """Write a traceback into the run, the cache or the temporary folder; return the file."""
    text = "".join(
        (
            f"quasir {__version__}: quasir {' '.join(arguments)}\n",
            *traceback.format_exception(error),
        )
    )
    name = f"traceback-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    for folder in _places(arguments):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError:
            continue
        return folder / name
    return "that could not be written; this is its text:\n" + text


def _places(arguments: Sequence[str]) -> Iterator[Path]:
    run = run_in(arguments)
    if run is not None:
        yield run
    yield cache_folder()
    yield Path(tempfile.gettempdir())
