"""How a command ends: every error becomes a message on stderr and a documented exit code."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from quasir.cli.bar import say
from quasir.core import __version__
from quasir.core.files import FULL, cache_folder
from quasir.errors import InputError, QuasirError, RecipeError

FAILED, WRONG, BUG, STOPPED = 1, 2, 70, 130
EXIT_CODES = (
    "Exit codes: 0 done; 1 an error, or stdout cannot be written; 2 a wrong command line, value "
    "or recipe; 70 a bug in quasir; 130 stopped by hand."
)
LONGEST = 300  # characters of an unforeseen error's own message that are shown


def prepare_streams() -> None:
    """Let stdout and stderr take every character; open those that are closed, on nothing."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def code_of(command: Callable[[], object], arguments: Sequence[str]) -> int:
    """Run a command, say what went wrong, and return its exit code."""
    try:
        code = 0
        try:
            command()
        except SystemExit as end:
            if isinstance(end.code, str):
                say(end.code)
            code = end.code if isinstance(end.code, int) else FAILED if end.code else 0
        # What is still in the buffer would otherwise fail after the end, with a traceback.
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return STOPPED
    except QuasirError as error:
        say(f"error: {error}")
        return WRONG if isinstance(error, (InputError, RecipeError)) else FAILED
    except BrokenPipeError:
        return FAILED  # the reader wanted no more
    except MemoryError:
        say("error: the memory is full. Ask for fewer draws or samples, or give --stream.")
        return FAILED
    except Exception as error:
        return _unforeseen(error, arguments)
    finally:
        _drop_unwritten()


def _unforeseen(error: Exception, arguments: Sequence[str]) -> int:
    if isinstance(error, OSError) and error.errno is not None:
        # The machine refused: no bug, and no traceback would help.
        where = f"{error.filename}: " if error.filename is not None else ""
        if not where and error.errno in FULL:
            where = "stdout cannot be written: "  # a file would be named
        say(f"error: {_shown(where)}{os.strerror(error.errno)}.")
        return FAILED
    path = write_traceback(error, arguments)
    say(f"error: {type(error).__name__}: {_shown(str(error)) or 'no message'}")
    say(f"this is a bug in quasir: please report it with `quasir doctor` and the file {path}")
    return BUG


def _shown(text: str) -> str:
    line = " ".join(text.split(" ")).replace("\n", " ").replace("\r", " ")
    return line if len(line) <= LONGEST else line[: LONGEST - 3] + "..."


def _drop_unwritten() -> None:
    """Send what stdout could not write to nothing, so that Python does not fail on it at exit."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, sys.stdout.fileno())
            os.close(nothing)


def write_traceback(error: BaseException, arguments: Sequence[str]) -> Path | str:
    """Write a traceback into the cache or the temporary folder; return the file."""
    lines = [f"quasir {__version__}: quasir {' '.join(arguments)}\n"]
    text = "".join(lines + traceback.format_exception(error))
    name = f"traceback-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    for folder in (cache_folder(), Path(tempfile.gettempdir())):
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8", errors="backslashreplace")
            return folder / name
    return "that could not be written; this is its text:\n" + text
