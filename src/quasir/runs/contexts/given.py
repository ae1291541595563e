"""The contexts that are given to a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from quasir.errors import InputError
from quasir.recipes.placeholders import Context, fields_of, read_contexts, refuse_missing
from quasir.recipes.schema import Recipe
from quasir.runs.opening import is_context_run
from quasir.store import MANIFEST

__all__ = ["contexts_of"]


def contexts_of(
    recipe: Recipe,
    folder: Path,
    contexts: str | Path | Sequence[Any] | None,
    column: str | None = None,
) -> list[Context] | None:
    """Return the contexts that are given, or None; a mistake leaves no file."""
    if contexts is None:
        if column is not None:
            raise InputError("a column is that of contexts: give them too.")
        return None
    names = fields_of(recipe)
    given = read_contexts(contexts, column, names[0] if len(names) == 1 else None)
    refuse_missing(recipe, given)
    if (folder / MANIFEST).is_file() and not is_context_run(folder):
        raise InputError(f"{folder} is a run without contexts: give another folder with --out.")
    return given
