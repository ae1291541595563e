"""From a checked recipe to base, features, proposal and target."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quasir import features
from quasir.constrain import constrain
from quasir.errors import RecipeError
from quasir.features import Feature
from quasir.progress import Progress
from quasir.proposals import Mixture, Table, from_scipy
from quasir.recipes.schema import FeatureSpec, Recipe, Source
from quasir.store.shards import hash_of
from quasir.target import Factor, Pointwise, Product, Tilt
from quasir.typing import Proposal

__all__ = ["Built", "build", "features_of", "python_files", "resolve"]

FIT_STREAM = 2**32 - 1
"""Which child of the seed the fit of lambda draws with; blocks are numbered from 0."""


@dataclass(frozen=True)
class Built:
    """A recipe's parts, ready to draw."""

    base: Any
    proposal: Proposal
    features: dict[str, Feature]
    models: list[dict[str, str | None]]


def build(recipe: Recipe, folder: Path, allow_code: bool = False) -> Built:
    """Load the models and make the features; `folder` is where the recipe is."""
    named = features_of(recipe, folder, allow_code)
    loaded: dict[tuple[Any, ...], Any] = {}
    base = _source(recipe.base, recipe, loaded)
    proposal = base if recipe.proposal == Source() else _source(recipe.proposal, recipe, loaded)
    return Built(base, proposal, named, [_identity(model) for model in loaded.values()])


def features_of(
    recipe: Recipe, folder: Path, allow_code: bool | None = False
) -> dict[str, Feature]:
    """Make the features; a user's Python is run only if allowed, and left out if that is None."""
    made = {}
    for name, spec in recipe.features.items():
        if spec.python is not None and allow_code is None:
            continue
        if spec.python is not None and not allow_code:
            raise RecipeError(
                f"feature {name!r} is the function {spec.python}, and running a recipe's code was "
                "not allowed: read that file, and give --allow-code if you trust it."
            )
        made[name] = _feature(name, spec, folder)
    return made


def resolve(recipe: Recipe, built: Built, progress: Progress = False) -> tuple[Recipe, Product]:
    """Fit the lambdas that the recipe leaves open; return it with them, and the target.

    Raises
    ------
    Infeasible
        Where the wishes cannot be met, or the fit has too few draws.
    """
    if recipe.unfitted:
        state = np.random.SeedSequence(recipe.seed, spawn_key=(FIT_STREAM,)).generate_state(2)
        fitted = constrain(
            built.base,
            {built.features[name]: wish for name, wish in recipe.want.items()},
            n=recipe.fit,
            seed=int(state[0]) << 32 | int(state[1]),
            progress=progress,
        )
        coefficients = {**recipe.coefficients, **fitted.coefficients}
        recipe = recipe.model_copy(update={"coefficients": coefficients})
    factors: list[Factor] = []
    for name in recipe.pointwise:
        feature = built.features[name]
        factors.append(Pointwise(feature if recipe.want[name] == 1.0 else ~feature))
    factors += [Tilt(built.features[name], c) for name, c in recipe.coefficients.items()]
    return recipe, Product(built.base, factors, list(built.features.values()))


def python_files(recipe: Recipe, folder: Path) -> Iterator[Path]:
    """Yield the files of the user's own features."""
    names = {spec.python.rpartition(":")[0] for spec in recipe.features.values() if spec.python}
    for name in sorted(names):
        yield folder / name


def _feature(name: str, spec: FeatureSpec, folder: Path) -> Feature:
    case = {} if spec.case is None else {"case": spec.case}
    if spec.named is not None:
        known = features.NAMED[spec.named]
        return Feature(name, known.function, known.batched, known.expensive, known.spans)
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
        return features.similarity(spec.similarity.text, spec.similarity.above, name=name)
    assert spec.python is not None
    return Feature(name, _function(spec.python, folder))


def _function(place: str, folder: Path) -> Callable[[Any], Any]:
    """Load ``file.py:function`` from the recipe's folder."""
    name, _, function = place.rpartition(":")
    path = folder / name
    if not path.is_file():
        raise RecipeError(f"there is no file {path}, which {place!r} names.")
    spec = importlib.util.spec_from_file_location(f"quasir_recipe_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise RecipeError(f"{path} failed with {type(error).__name__}: {error}.") from error
    found = getattr(module, function, None)
    if not callable(found):
        raise RecipeError(f"{path} has no function {function!r}.")
    made: Callable[[Any], Any] = found
    return made


def _source(source: Source, recipe: Recipe, loaded: dict[tuple[Any, ...], Any]) -> Any:
    if source.table is not None:
        return Table(source.table)
    if source.poisson is not None:
        from scipy import stats

        return from_scipy(stats.poisson(source.poisson))
    if source.mixture is not None:
        parts = [_source(part, recipe, loaded) for part in source.mixture]
        return Mixture(parts, [part.weight for part in source.mixture])
    from quasir import text

    if source.round_trip is not None:
        trip = source.round_trip
        made = text.RoundTrip(
            trip.there,
            trip.back,
            trip.text,
            beams=trip.beams,
            top_k=trip.top_k,
            max_tokens=recipe.max_tokens,
        )
        loaded["round_trip", trip.there, trip.back] = made
        return made
    base = recipe.base
    name = source.model or base.model
    if name is None:
        raise RecipeError(
            "the proposal names no model, and the base is none: give it a model, a table or a "
            "poisson."
        )
    # What the proposal leaves out is the base's, if it is of the same model.
    same = source.model in (None, base.model)
    adapter = source.adapter or (base.adapter if source.model is None else None)
    revision = source.revision or (base.revision if same else None)
    warp: dict[str, Any] = {
        "temperature": source.temperature,
        "top_k": source.top_k,
        "top_p": source.top_p,
        "max_tokens": recipe.max_tokens,
    }
    key = (name, adapter, revision, source.dtype, source.source is not None)
    settings: dict[str, Any] = {"adapter": adapter, "revision": revision, "dtype": source.dtype}
    if source.source is not None:
        if key not in loaded:
            loaded[key] = text.Seq2SeqLM(name, source.source, **warp, **settings)
        return loaded[key]
    if key not in loaded:
        loaded[key] = text.CausalLM(name, max_tokens=recipe.max_tokens, **settings)
    return loaded[key].varied(prompt=source.prompt, **warp)


def _identity(model: Any) -> dict[str, str | None]:
    """Return what tells a model from others: name, adapter, revision, hash of its weights."""
    from quasir.text.loading import BUILT_IN

    name = model.name
    folder = BUILT_IN.get(name, Path(name)) if name is not None else None
    weights = None
    if folder is not None and folder.is_dir():
        weights = next((hash_of(file) for file in sorted(folder.glob("*.safetensors"))), None)
    revision = model.revision or getattr(model.model.config, "_commit_hash", None)
    return {
        "name": name,
        "adapter": model.adapter,
        "revision": revision,
        "weights_sha256": weights,
    }
