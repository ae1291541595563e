"""Files that are written whole or not at all: a temporary file, then a rename."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from quasir.errors import InputError, StoreError

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Error numbers that mean "no room": the disk, the quota, or the largest size of a file."""


def write_with(
    path: Path, write: Callable[[Path], object], durable: bool = True, tag: str = ""
) -> None:
    """Let `write` fill a temporary file, named by `tag` too, then rename it to `path`."""
    if not path.name:
        raise unwritable(path, ValueError("it has no name"))
    temporary = path.with_name(f".{path.name}{tag}.partial")
    try:
        write(temporary)
        if durable:
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise unwritable(path, error) from error
        raise


def unwritable(path: Path, error: OSError | ValueError) -> StoreError:
    """Return the error that says why a path cannot be written, and what to do."""
    number = error.errno if isinstance(error, OSError) else None
    why = os.strerror(number) if number else str(error)
    if isinstance(error, ValueError):
        why, todo = "No file has such a name", "Give a name of ordinary characters."
    elif number in FULL:
        todo = "All files written before are whole: make room, and give the same command again."
    elif isinstance(error, (NotADirectoryError, FileExistsError)):
        todo = "A file is in the way: give another folder."
    else:
        todo = "Give another name, in a folder that can be written."
    return StoreError(f"{shortened(path)} could not be written: {why}. {todo}")


def named_folder(name: str | Path) -> Path:
    """Return the folder of a run by its name; an empty name is refused."""
    if not str(name).strip():
        raise InputError("a run with an empty name would fill the current folder: give --out.")
    return Path(name)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, where they are absent."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # a null character or half a pair is a ValueError
        raise unwritable(path, error) from error


def cache_folder() -> Path:
    """Return the folder for what belongs to no run: QUASIR_CACHE, or in the user's cache."""
    if own := os.environ.get("QUASIR_CACHE"):
        return Path(own)
    given = os.environ.get("XDG_CACHE_HOME")
    try:
        home = Path(given) if given else Path.home() / ".cache"
    except RuntimeError:  # there is no home
        home = Path(tempfile.gettempdir())
    return home / "quasir"


def is_file(path: Path) -> bool:
    """Return whether a file is there."""
    try:
        return path.is_file()
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise InputError(f"{shortened(path)} cannot be read: {why}.") from error


def shortened(path: str | Path, most: int = 200) -> str:
    """Return a path as text, without its middle if it is long."""
    text = str(path)
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 2 :]}"


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes, whole or not at all."""
    write_with(path, lambda temporary: temporary.write_bytes(content))


def write_text(path: Path, content: str) -> None:
    """Write text, whole or not at all."""
    write_bytes(path, content.encode("utf-8", "surrogatepass"))


def write_json(path: Path, content: Any) -> None:
    """Write JSON, whole or not at all; NaN and infinity are errors, since JSON has neither."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
