"""Checks of numbers on the command line that the range of an option cannot make."""

from __future__ import annotations

import errno
import math
import os
from typing import TypeVar

import typer

from quasir.core.streams import LARGEST_SEED

__all__ = ["MOST_DRAWS", "MOST_SAMPLES", "above_0", "finite", "nameable", "seed_in_range"]

Name = TypeVar("Name", str, os.PathLike[str])
MOST_DRAWS = 10**12
"""Draws of a run, at most: a larger number is a slip, since its list of shards fills the memory."""
MOST_SAMPLES = 10**9
"""Samples, at most: they are held in memory."""


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
    """Return a seed, or refuse it: the largest is too long to be shown as a range."""
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
                f"{os.fspath(value)[:40]!r}... has {len(os.fspath(value)):,} characters, more than "
                "a file's name can have."
            ) from error
    except ValueError as error:  # a null character
        raise typer.BadParameter(f"{os.fspath(value)[:40]!r} is no name of a file.") from error
    return value
