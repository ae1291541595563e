"""Target and proposal of each context of a run; the models are loaded once."""

from __future__ import annotations

import tempfile
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quasir import recipes
from quasir.core.types import Proposal
from quasir.errors import InputError, QuasirError, StoreError
from quasir.recipes.building import Built, build, own_files, resolve
from quasir.recipes.placeholders import Context, fill
from quasir.recipes.schema import Recipe
from quasir.runs.contexts.table import Entry
from quasir.targets.product import Product

__all__ = ["Builder", "ContextParts", "models_of"]

KEPT = 1024
"""Contexts whose features and settings are kept, at most."""


class Builder:
    """Makes the parts of one context after another."""

    def __init__(self, recipe: Recipe, folder: Path, allow_code: bool = False) -> None:
        self.recipe, self.folder, self.allow_code = recipe, folder, allow_code
        self.loaded: dict[Any, Any] = {}
        self._built: OrderedDict[int, Built] = OrderedDict()

    def built(self, context: Context) -> Built:
        """Return the base, the features and the proposal of a context."""
        if context.place not in self._built:
            try:
                filled = fill(self.recipe, context)
                made = build(filled, self.folder, self.allow_code, self.loaded)
            except QuasirError as error:
                raise InputError(f"{context.where}: {error}") from error
            self._built[context.place] = made
            if len(self._built) > KEPT:
                self._built.popitem(last=False)
        return self._built[context.place]

    def parts(self, entry: Entry) -> tuple[Product, Proposal]:
        """Return the target and the proposal of a context."""
        built = self.built(entry.context)
        recipe = fill(self.recipe, entry.context)
        if entry.fitted:
            recipe = recipe.model_copy(update={"fitted": entry.fitted})
        return resolve(recipe, built)[1], built.proposal

    def release(self, context: Context) -> None:
        """Forget what a context's models have computed of their prompts."""
        built = self._built.get(context.place)
        for lm in () if built is None else models_of(built.base, built.proposal):
            lm.forget_prompt()


def models_of(*sources: Any) -> list[Any]:
    """Return the causal models in some distributions."""
    found = []
    for source in sources:
        found += models_of(*getattr(source, "components", ()))
        found += [
            lm for lm in (source, getattr(source, "base", None)) if hasattr(lm, "forget_prompt")
        ]
    return found


@dataclass(frozen=True)
class ContextParts:
    """A maker for another process: it gets the recipe, and loads the models itself.

    Attributes
    ----------
    recipe : str
        As YAML, with the lambdas that all contexts share.
    entries : tuple of Entry
    files : tuple of (name, content)
        The code of the user's own features, which may be run.
    models : tuple of dict
        Name, revision and hash of each model.
    """

    recipe: str
    entries: tuple[Entry, ...]
    files: tuple[tuple[str, bytes], ...]
    models: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(
        cls,
        recipe: Recipe,
        entries: Sequence[Entry],
        folder: Path,
        models: Sequence[Mapping[str, Any]],
    ) -> ContextParts:
        """Return the parts of a run in `folder`."""
        files = tuple((name, path.read_bytes()) for name, path in own_files(recipe, folder).items())
        return cls(recipes.dump(recipe), tuple(entries), files, tuple(models))

    def __call__(self) -> Builder:
        """Load the models."""
        kept = tempfile.TemporaryDirectory()  # it is removed with the maker
        folder = Path(kept.name)
        for file, content in self.files:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(content)
        maker = Builder(recipes.parse(self.recipe, "recipe.yaml"), folder, bool(self.files))
        maker.loaded["folder"] = kept
        entry = next(entry for entry in self.entries if entry.failed is None)
        models = maker.built(entry.context).models
        if models != list(self.models):
            raise StoreError(
                f"a worker has other models than the run: {models}, not {list(self.models)}. The "
                "draws would come from two distributions."
            )
        return maker
