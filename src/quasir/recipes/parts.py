"""What every part of a recipe shares, and the kinds of text in it."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Name", "Part", "check_beside"]

Name = Annotated[str, Field(min_length=1)]


class Part(BaseModel):
    """A part of a recipe; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    def given(self, names: tuple[str, ...]) -> list[str]:
        """Return which of these fields are not None."""
        return [name for name in names if getattr(self, name) is not None]


def check_beside(name: str, what: str) -> None:
    """Refuse a file that a run could not keep under the same path."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(
            f"a run keeps a copy of {what}, so the file lies beside the recipe or in a folder "
            "there: give its path from the recipe's folder, without '..'"
        )
