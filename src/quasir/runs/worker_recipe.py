"""A run's target and proposal for a worker: it gets the recipe, and loads the models itself."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quasir import recipes
from quasir.core.types import Proposal, Target
from quasir.errors import StoreError
from quasir.recipes.building import build, own_files, resolve
from quasir.recipes.schema import Recipe

__all__ = ["RecipeParts"]


@dataclass(frozen=True)
class RecipeParts:
    """Loads target and proposal of a resolved recipe, in the process that calls it.

    Attributes
    ----------
    recipe : str
        As YAML, with every lambda.
    files : tuple of (name, content)
        The code of the user's own features, which may be run.
    models : tuple of dict
        Name, revision and hash of each model; with other models the draws would differ.
    """

    recipe: str
    files: tuple[tuple[str, bytes], ...]
    models: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, recipe: Recipe, folder: Path, models: list[dict[str, Any]]) -> RecipeParts:
        """Return the parts of a run in `folder`."""
        files = tuple((name, path.read_bytes()) for name, path in own_files(recipe, folder).items())
        return cls(recipes.dump(recipe), files, tuple(models))

    def __call__(self) -> tuple[Target, Proposal]:
        """Load the models."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for file, content in self.files:
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / file).write_bytes(content)
            recipe = recipes.parse(self.recipe, "recipe.yaml")
            built = build(recipe, folder, allow_code=bool(self.files))
            if built.models != list(self.models):
                raise StoreError(
                    f"a worker has other models than the run: {built.models}, not "
                    f"{list(self.models)}. The draws would come from two distributions."
                )
            _, target = resolve(recipe, built)
        return target, built.proposal
