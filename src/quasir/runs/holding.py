"""Holding a run's folder to write into it, with words where that cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from quasir.core.files import make_folder, shortened, unwritable
from quasir.errors import InputError
from quasir.store import locked

__all__ = ["held", "must_be_possible"]


def must_be_possible(folder: Path) -> None:
    """Refuse a path that cannot be a folder, before anything is loaded or drawn.

    Raises
    ------
    InputError
        If a file is in the way, or the path is one that no folder can have.
    """
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


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Make a run's folder, and lock it for this process.

    Only what writes needs this: a run that cannot be written can still be looked at.

    Raises
    ------
    StoreError
        If the folder cannot be made or written, or another process holds it.
    """
    make_folder(folder)
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder))
        except OSError as error:
            raise unwritable(folder, error) from error
        yield
