"""Paths that cannot be the folder of a run, with words why."""

from __future__ import annotations

from pathlib import Path

from quasir.core.files import shortened
from quasir.errors import InputError

__all__ = ["must_be_possible"]


def must_be_possible(folder: Path) -> None:
    """Refuse a path that cannot be a folder, before anything is loaded or drawn."""
    shown = shortened(folder)
    if "\0" in str(folder):
        raise InputError(f"{shown!r} cannot be the folder of a run: it has a null character.")
    try:
        for path in (folder, *folder.parents):
            if path.is_dir():
                return
            if path.exists() or path.is_symlink():
                at = "" if path == folder else f", since {shortened(path)} is none"
                raise InputError(f"{shown} cannot be the folder of a run{at}: give another folder.")
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"{shown} cannot be the folder of a run ({why}): give another folder."
        ) from error
