"""Commands that are printed as advice: they work as they are, in a shell."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from quasir.recipes import Recipe

__all__ = ["command"]


def command(name: str, folder: str | Path, *options: Any, recipe: Recipe | None = None) -> str:
    """Return a command on a run, with the permission that the recipe's own code needs.

    Examples
    --------
    >>> command("sample", "runs/my run", "-n", 1000)
    "quasir sample 'runs/my run' -n 1000"
    """
    own = recipe is not None and any(spec.python for spec in recipe.features.values())
    words = ["quasir", name, str(folder), *map(str, options), *(["--allow-code"] if own else [])]
    return shlex.join(words)
