"""Making base, features, proposal and target from a checked recipe."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from quasir.constraints.constrain import constrain
from quasir.core.formatting import escaped, short_repr
from quasir.core.progress import Progress
from quasir.core.types import Proposal
from quasir.draws.draws import Draws
from quasir.errors import RecipeError
from quasir.features import Feature
from quasir.features.similarity import SentenceModel
from quasir.guides.matcher import LanguageFeature
from quasir.recipes.models import BUILT_IN_GUIDES, Identity, Sources
from quasir.recipes.parts import FeatureSpec, GuideSpec, Part, SimilaritySpec
from quasir.recipes.placeholders import check_filled
from quasir.recipes.schema import MODEL_NAMES, Recipe
from quasir.targets.factors import Factor, Pointwise, Tilt
from quasir.targets.product import Product


@dataclass(frozen=True)
class Built:
    """A recipe's parts, ready to draw; `models` tells the loaded models from others."""

    base: Any
    proposal: Proposal
    features: dict[str, Feature]
    models: list[Identity]


def build(
    recipe: Recipe,
    folder: Path,
    allow_code: bool = False,
    loaded: dict[Any, Any] | None = None,
) -> Built:
    """Load the models and make the features of a recipe in `folder`.

    `loaded` keeps what is loaded, for another recipe with the same models.
    """
    check_filled(recipe)
    loaded = {} if loaded is None else loaded
    recipe = located(recipe, folder)
    named = features_of(recipe, folder, allow_code, loaded)
    sources = Sources(recipe, named, folder, loaded)
    base, proposal = sources.base, sources.make(recipe.proposal)
    for name, feature in named.items():
        if isinstance(feature, LanguageFeature):
            named[name] = feature.bound(base)  # it must know where the base's texts are cut
    near = dict.fromkeys(part.model for part in recipe.parts(SimilaritySpec))
    embeddings = [SentenceModel(name).identity for name in near if name is not None]
    return Built(base, proposal, named, sources.identities() + embeddings)


def features_of(
    recipe: Recipe,
    folder: Path,
    allow_code: bool | None = False,
    loaded: dict[Any, Any] | None = None,
) -> dict[str, Feature]:
    """Return the features by name; those in `loaded` are not made again.

    For features in the user's own Python, `allow_code` True runs the code, False raises, and None
    omits the feature.
    """
    made: dict[str, Feature] = {}
    kept = {} if loaded is None else loaded
    for name, spec in recipe.features.items():
        if spec.python is not None and allow_code is None:
            continue
        if spec.python is not None and not allow_code:
            raise RecipeError(
                f"feature {short_repr(name)} is the function {escaped(spec.python)}, and this "
                "recipe may not run code: read that file, and give --allow-code if you trust it."
            )
        key = ("feature", name, spec.model_dump_json())
        if key not in kept:
            kept[key] = spec.make(name) if spec.python is None else _own(name, spec, folder)
        made[name] = kept[key]
    return made


def resolve(
    recipe: Recipe,
    built: Built,
    progress: Progress = False,
    proposal: Proposal | None = None,
    draws: Draws | None = None,
) -> tuple[Recipe, Product]:
    """Fit the lambdas that the recipe does not give; return the full recipe, and the target.

    They are fitted together with the tilts that the recipe gives, so that the means are met under
    both. The fit uses draws of the base, or of `proposal` where it is given, or `draws` at hand.
    """
    tilts = [Tilt(built.features[name], c) for name, c in recipe.coefficients.items()]
    if recipe.unfitted:
        fitted = constrain(
            Product(built.base, tilts),
            {built.features[name]: moment for name, moment in recipe.want.items()},
            n=recipe.fit,
            seed=recipe.seed,
            proposal=proposal,
            draws=draws,
            progress=progress,
        )
        recipe = recipe.model_copy(update={"fitted": dict(fitted.coefficients)})
    factors: list[Factor] = []
    for name in recipe.pointwise:
        feature = built.features[name]
        factors.append(Pointwise(feature if recipe.want[name] == 1.0 else ~feature))
    factors += tilts
    factors += [Tilt(built.features[name], c) for name, c in recipe.fitted.items()]
    return recipe, Product(built.base, factors, list(built.features.values()))


def own_files(recipe: Recipe, folder: Path) -> dict[str, Path]:
    """Return the recipe's Python and guide files, by their path from the recipe's folder.

    A run keeps them under the same paths.
    """
    files = [part.python.rpartition(":")[0] for part in recipe.parts(FeatureSpec) if part.python]
    guides = [part.file for part in recipe.parts(GuideSpec) if part.file]
    files += [file for file in guides if file not in BUILT_IN_GUIDES]
    names = {str(PurePosixPath(file)) for file in files}
    return {name: folder / name for name in sorted(names)}


def located(recipe: Recipe, folder: Path) -> Recipe:
    """Return the recipe with absolute paths for models that are folders beside it."""

    def locate(name: str) -> str:
        path = folder / name
        return str(path.resolve()) if os.path.isdir(path) else name

    return _rename_models(recipe, locate)


def portable(recipe: Recipe, folder: Path) -> Recipe:
    """Return the recipe as a run keeps it: with relative paths for models inside the run.

    A run with its own proposal can then be moved.
    """
    inside = folder.resolve()

    def shorten(name: str) -> str:
        path = Path(name)
        return str(path.relative_to(inside)) if path.is_relative_to(inside) else name

    return _rename_models(recipe, shorten)


def _rename_models(recipe: Recipe, rename: Callable[[str], str]) -> Recipe:
    def change(part: Part) -> dict[str, str]:
        names = {field: getattr(part, field, None) for field in MODEL_NAMES}
        return {field: rename(name) for field, name in names.items() if name is not None}

    return recipe.changed(change)


def _own(name: str, spec: FeatureSpec, folder: Path) -> Feature:
    """Return a feature of the user's own: ``file.py:function`` from the recipe's folder."""
    assert spec.python is not None
    file, _, function = spec.python.rpartition(":")
    path = folder / file
    if not os.path.isfile(path):
        raise RecipeError(f"there is no file {short_repr(str(path), 200)}, which a feature names.")
    # Two files of one name in different folders are two modules.
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
    place = importlib.util.spec_from_file_location(f"quasir_recipe_{path.stem}_{digest}", path)
    assert place is not None
    assert place.loader is not None
    module = importlib.util.module_from_spec(place)
    sys.modules[place.name] = module
    try:
        place.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise RecipeError(
            f"{path} failed with {type(error).__name__}: {escaped(str(error), 300)}."
        ) from error
    found = getattr(module, function, None)
    if not callable(found):
        raise RecipeError(f"{path} has no function {function!r}.")
    return Feature(name, found, boolean=spec.boolean or False, low=spec.low, high=spec.high)
