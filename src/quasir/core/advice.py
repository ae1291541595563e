"""Commands that are printed as advice: they work as they are, in a shell."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

__all__ = ["command"]


def command(name: str, folder: str | Path, *options: Any, own_code: bool = False) -> str:
    """Return a command on a run; `own_code` adds the permission to run the recipe's own code.

    Examples
    --------
    >>> command("sample", "runs/my run", "-n", 1000)
    "quasir sample 'runs/my run' -n 1000"
    >>> command("draw", "-run", own_code=True)
    'quasir draw ./-run --allow-code'
    """
    place = f"./{folder}" if str(folder).startswith("-") else str(folder)
    words = ["quasir", name, place, *map(str, options), *(["--allow-code"] if own_code else [])]
    return shlex.join(words)
