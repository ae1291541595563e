"""Commands that are printed as advice, with the permission that a recipe's own code needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from quasir.core import advice
from quasir.recipes import Recipe

__all__ = ["command"]


def command(name: str, folder: str | Path, *options: Any, recipe: Recipe | None = None) -> str:
    """Return a command on a run, as it can be copied into a shell.

    Examples
    --------
    >>> command("sample", "runs/my run", "-n", 1000)
    "quasir sample 'runs/my run' -n 1000"
    """
    own = recipe is not None and any(spec.python for spec in recipe.features.values())
    return advice.command(name, folder, *options, own_code=own)
