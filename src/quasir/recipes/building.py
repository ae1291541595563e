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

from quasir import features
from quasir.constraints.constrain import constrain
from quasir.core.formatting import escaped, shown
from quasir.core.progress import Progress
from quasir.core.types import Proposal
from quasir.draws.draws import Draws
from quasir.errors import RecipeError
from quasir.features import Feature
from quasir.features.sentence_models import SentenceModel
from quasir.guides.language_feature import LanguageFeature
from quasir.recipes.context import check_filled
from quasir.recipes.guide_files import BUILT_IN_GUIDES
from quasir.recipes.guide_schema import GuideSpec
from quasir.recipes.models import Sources
from quasir.recipes.paths import located
from quasir.recipes.schema import FeatureSpec, Recipe, Source
from quasir.targets.factors import Factor, Pointwise, Tilt
from quasir.targets.product import Product

__all__ = ["build", "features_of", "own_files", "resolve"]


@dataclass(frozen=True)
class Built:
    """A recipe's parts, ready to draw; `models` tells the loaded models from others."""

    base: Any
    proposal: Proposal
    features: dict[str, Feature]
    models: list[dict[str, str | None]]


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
    models = sources.identities() + _embeddings(recipe)
    return Built(base=base, proposal=proposal, features=named, models=models)


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
                f"feature {shown(name)} is the function {escaped(spec.python)}, and this "
                "recipe may not run code: read that file, and give --allow-code if you trust it."
            )
        key = ("feature", name, spec.model_dump_json())
        if key not in kept:
            kept[key] = _feature(name, spec, folder)
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

    They are fitted together with the tilts that the recipe gives, so that the wishes are met under
    both. The fit uses draws of the base, or of `proposal` where it is given, or `draws` at hand.

    Raises
    ------
    InfeasibleError
        If the wishes cannot be met, or the fit has too few draws.
    """
    tilts = [Tilt(built.features[name], c) for name, c in recipe.coefficients.items()]
    if recipe.unfitted:
        fitted = constrain(
            Product(built.base, tilts),
            {built.features[name]: wish for name, wish in recipe.want.items()},
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
    places = [spec.python for spec in recipe.features.values() if spec.python]
    names = {str(PurePosixPath(place.rpartition(":")[0])) for place in places}
    files = [spec.file for spec in _guides(recipe.proposal) if spec.file]
    names |= {str(PurePosixPath(file)) for file in files if file not in BUILT_IN_GUIDES}
    return {name: folder / name for name in sorted(names)}


def _guides(source: Source) -> list[GuideSpec]:
    parts = [spec for part in source.mixture or [] for spec in _guides(part)]
    return parts if source.guide is None else [*parts, source.guide]


def _embeddings(recipe: Recipe) -> list[dict[str, str | None]]:
    """Return what identifies the sentence models that features name."""
    near = [spec.similarity for spec in recipe.features.values() if spec.similarity is not None]
    names = dict.fromkeys(one.model for one in near if one.model is not None)
    return [SentenceModel(name).identity for name in names]


def _feature(name: str, spec: FeatureSpec, folder: Path) -> Feature:
    case = {} if spec.case is None else {"case": spec.case}
    if spec.named is not None:
        return features.NAMED[spec.named].renamed(name)
    if spec.words is not None:
        return features.words(spec.words, name=name, **case)
    if spec.contains is not None:
        return features.contains(spec.contains, name=name, **case)
    if spec.regex is not None:
        return features.regex(spec.regex, name=name, **case)
    if spec.pronouns is not None:
        return features.pronouns(spec.pronouns, name=name)
    if spec.length is not None:
        return features.length(spec.length, name=name)
    if spec.similarity is not None:
        near = spec.similarity
        return features.similarity(near.text, near.above, embed=near.model, name=name)
    if spec.language is not None:
        return spec.language.made(name).feature
    assert spec.python is not None
    return Feature(
        name,
        _function(spec.python, folder),
        boolean=spec.boolean or False,
        low=spec.low,
        high=spec.high,
    )


def _function(place: str, folder: Path) -> Callable[[Any], Any]:
    """Load ``file.py:function`` from the recipe's folder."""
    name, _, function = place.rpartition(":")
    path = folder / name
    if not os.path.isfile(path):
        raise RecipeError(f"there is no file {shown(str(path), 200)}, which a feature names.")
    # Two files of one name in different folders are two modules.
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
    spec = importlib.util.spec_from_file_location(f"quasir_recipe_{path.stem}_{digest}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise RecipeError(
            f"{path} failed with {type(error).__name__}: {escaped(str(error), 300)}."
        ) from error
    found = getattr(module, function, None)
    if not callable(found):
        raise RecipeError(f"{path} has no function {function!r}.")
    made: Callable[[Any], Any] = found
    return made
