"""What to do about absent or damaged shards: a command that draws them."""

from __future__ import annotations

import re
from pathlib import Path

from quasir.core.advice import command

__all__ = ["drawing"]

OWN_CODE = re.compile(r"^ +python: ", re.MULTILINE)
"""A feature of the user's own, in the recipe that a run keeps."""


def drawing(folder: Path, *options: str) -> str:
    """Return the sentence that says how to get the draws of a folder.

    Examples
    --------
    >>> drawing(Path("runs/saved"))
    'No recipe says how to draw them: save them again, into another folder.'
    """
    try:
        recipe = (folder / "recipe.yaml").read_text(errors="replace")
    except OSError:
        return "No recipe says how to draw them: save them again, into another folder."
    own_code = OWN_CODE.search(recipe) is not None
    return f"`{command('draw', folder, *options, own_code=own_code)}` draws them."
