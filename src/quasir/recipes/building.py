"""Making base, features, proposal and target from a checked recipe; each model is loaded once."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

from quasir import guides
from quasir.constraints.constrain import constrain
from quasir.core.files import hash_of
from quasir.core.formatting import escaped, short_repr
from quasir.core.progress import Progress
from quasir.core.types import Proposal
from quasir.draws.draws import Draws
from quasir.errors import RecipeError
from quasir.features import Feature
from quasir.features.classifier import Classifier
from quasir.features.similarity import SentenceModel
from quasir.guides.matcher import LanguageFeature
from quasir.proposals import Mixture, Table, from_scipy
from quasir.recipes.parts import ClassifierSpec, FeatureSpec, GuideSpec, Part, SimilaritySpec
from quasir.recipes.placeholders import check_filled
from quasir.recipes.schema import MODEL_NAMES, SERVED, WARP, WEIGHTS, Recipe, Source
from quasir.targets.product import Factor, Pointwise, Product, Tilt

FOUND = ".safetensors"  # how the file of a proposal ends that a search has found
BUILT_IN_GUIDES = {
    f"quasir/{path.stem}": path
    for path in sorted((Path(__file__).parent / "built_in").glob(f"*{FOUND}"))
}  # the proposals that come with the package, by name
Identity = dict[str, str | None]


@dataclass(frozen=True)
class Built:
    """A recipe's parts, ready to draw; `models` tells the loaded models from others."""

    base: Any
    proposal: Proposal
    features: dict[str, Feature]
    models: list[Identity]


def build(
    recipe: Recipe, folder: Path, allow_code: bool = False, loaded: dict[Any, Any] | None = None
) -> Built:
    """Load the models and make the features of a recipe in `folder`."""
    check_filled(recipe)
    if not allow_code and any(part.trust_remote_code for part in recipe.parts(Source)):
        raise RecipeError("trust_remote_code runs a model's code: give --allow-code to trust it.")
    loaded = {} if loaded is None else loaded
    recipe = located(recipe, folder)
    named = features_of(recipe, folder, allow_code, loaded)
    sources = _Sources(recipe, named, folder, loaded)
    base, proposal = sources.base, sources.make(recipe.proposal)
    for name, feature in named.items():
        if isinstance(feature, LanguageFeature):
            named[name] = feature.bound(base)  # it must know where the base's texts are cut
    near = dict.fromkeys(part.model for part in recipe.parts(SimilaritySpec))
    embeddings = [SentenceModel(name).identity for name in near if name is not None]
    judges = dict.fromkeys((part.model, part.revision) for part in recipe.parts(ClassifierSpec))
    judging = [Classifier(*judge).identity for judge in judges]
    models = [model.identity() for model in sources.models.values()]
    files: list[Identity] = [
        {"name": name, "guide_sha256": hash_of(path)} for name, path in sources.guides.items()
    ]
    return Built(base, proposal, named, [*models, *files, *embeddings, *judging])


def features_of(
    recipe: Recipe,
    folder: Path,
    allow_code: bool | None = False,
    loaded: dict[Any, Any] | None = None,
) -> dict[str, Feature]:
    """Return the features by name; those in `loaded` are not made again."""
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
    """Fit the lambdas that the recipe does not give; return the full recipe, and the target."""
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
    """Return the recipe's Python and guide files, by their path from the recipe's folder."""
    files = [part.python.rpartition(":")[0] for part in recipe.parts(FeatureSpec) if part.python]
    guides = [part.file for part in recipe.parts(GuideSpec) if part.file]
    files += [file for file in guides if file not in BUILT_IN_GUIDES]
    names = {str(PurePosixPath(file)) for file in files}
    return {name: folder / name for name in sorted(names)}


def located(recipe: Recipe, folder: Path) -> Recipe:
    """Return the recipe with absolute paths for models that are folders beside it."""
    return _rename_models(
        recipe,
        lambda name: str((folder / name).resolve()) if os.path.isdir(folder / name) else name,
    )


def portable(recipe: Recipe, folder: Path) -> Recipe:
    """Return the recipe as a run keeps it: models inside the run have relative paths."""
    inside = f"{folder.resolve()}{os.sep}"
    return _rename_models(recipe, lambda name: name.removeprefix(inside))


def _rename_models(recipe: Recipe, rename: Callable[[str], str]) -> Recipe:
    def change(part: Part) -> dict[str, str]:
        names = {field: getattr(part, field, None) for field in MODEL_NAMES}
        if getattr(part, "server", None) is not None:
            del names["model"]  # a name on the server
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
    module = ModuleType(f"quasir_recipe_{path.stem}_{digest}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        exec(compile(path.read_bytes(), path, "exec"), vars(module))
    except (Exception, SystemExit) as error:
        raise RecipeError(
            f"{path} failed with {type(error).__name__}: {escaped(str(error), 300)}."
        ) from error
    found = getattr(module, function, None)
    if not callable(found):
        raise RecipeError(f"{path} has no function {function!r}.")
    kind: dict[str, Any] = {"batched": spec.batched or False, "boolean": spec.boolean or False}
    return Feature(name, found, **kind, low=spec.low, high=spec.high)


class _Sources:
    """Makes the distributions of one recipe in `folder`; `loaded` keeps what is loaded."""

    def __init__(
        self, recipe: Recipe, features: Mapping[str, Feature], folder: Path, loaded: dict[Any, Any]
    ) -> None:
        self.recipe, self.features, self.folder, self.loaded = recipe, features, folder, loaded
        self.models: dict[tuple[Any, ...], Any] = {}
        self.varied: dict[tuple[Any, ...], Any] = {}
        self.guides: dict[str, Path] = {}

    @cached_property
    def base(self) -> Any:
        return self.make(self.recipe.base)

    def make(self, source: Source) -> Any:
        """Return the distribution of a source: it has `sample` and `log_prob`."""
        if source.is_base:
            return self.base
        if source.searched:
            raise RecipeError(
                "a search for a proposal belongs to a run (`quasir run`, `quasir tune --guide`): "
                "name the file that it finds, as in guide: {file: proposal.safetensors}."
            )
        if source.guide is not None:
            inner = self.make(source.model_copy(update={"guide": None, "share": None}))
            if not callable(getattr(inner, "guided", None)):
                raise RecipeError("a guide needs a causal language model, and the base is none.")
            guide = self._guide(source.guide)
            if isinstance(guide, guides.Guide):
                return inner.guided(guide, source.share or 0.0)
            if source.share is not None:
                raise RecipeError(f"{source.guide.file} has the base's share in it: leave it out.")
            return guide.placed(inner, self.features)
        if source.table is not None:
            return Table(source.table)
        if source.poisson is not None:
            from scipy import stats

            return from_scipy(stats.poisson(source.poisson))
        if source.mixture is not None:
            parts = [self.make(part) for part in source.mixture]
            return Mixture(parts, [part.weight for part in source.mixture])
        if (trip := source.round_trip) is not None:
            from quasir import text

            ways = self._weights(trip.there), self._weights(trip.back)
            how: dict[str, Any] = {"beams": trip.beams, "top_k": trip.top_k}
            how["max_tokens"] = self.recipe.max_tokens
            made = self.models["round trip", trip] = text.RoundTrip(*ways, trip.text, **how)
            made.name = trip.back
            return made
        return self._model(source)

    def _guide(self, spec: GuideSpec) -> Any:
        """Return a guide; it is made once for all contexts that have the same features."""
        if spec.file in BUILT_IN_GUIDES:
            self.guides[spec.file] = BUILT_IN_GUIDES[spec.file]
        named = [self.features.get(name) for name in (*(spec.mask or ()), *(spec.boost or ()))]
        key = ("guide", spec.model_dump_json(), *map(id, named))
        # The features are kept with it, so that no other object gets their ids.
        return self._once(key, lambda: (_make_guide(spec, self.features, self.folder), named))[0]

    def _weights(self, name: str, **settings: Any) -> Any:
        from quasir.text.loading import load

        key = ("seq2seq", name, *settings.values())
        return self._once(key, lambda: load(name, "seq2seq", **settings))

    def _model(self, source: Source) -> Any:
        from quasir import text

        settings = self._settings(source)
        weights = {name: settings[name] for name in WEIGHTS}
        name = weights.pop("model")
        warp = {name: settings[name] for name in WARP} | {"max_tokens": self.recipe.max_tokens}
        if (server := settings["server"]) is not None:
            warp |= {name: settings[name] for name in ("logit_bias", "mask")}
            served = {**server.model_dump(), **warp}
            key = ("served", name, server.model_dump_json())
            return self._varied(key, lambda: text.Served(model=name, **served), warp)
        if settings["logit_bias"] is not None or settings["mask"] is not None:
            raise RecipeError("logit_bias and mask are settings of a served model: give a server.")
        if source.source is not None:
            del warp["prompt"], warp["chat"]
            model, tokenizer = self._weights(name, **weights)
            made = text.Seq2SeqLM(source=source.source, model=model, tokenizer=tokenizer, **warp)
            made.name, made.revision, made.adapter = name, weights["revision"], weights["adapter"]
            self.models[name, source.source, *warp.values(), *weights.values()] = made
            return made
        limit = self.recipe.max_tokens
        key = (name, *weights.values())
        return self._varied(key, lambda: text.CausalLM(name, max_tokens=limit, **weights), warp)

    def _varied(self, key: tuple[Any, ...], load: Callable[[], Any], warp: dict[str, Any]) -> Any:
        """Return a model with some settings; it is loaded once, and varied once by each."""
        self.models[key] = self._once(key, load)
        ways = (*key, repr(warp))
        if ways not in self.varied:
            self.varied[ways] = self.models[key].varied(**warp)
        return self.varied[ways]

    def _once(self, key: tuple[Any, ...], load: Callable[[], Any]) -> Any:
        if key not in self.loaded:
            self.loaded[key] = load()
        return self.loaded[key]

    def _settings(self, source: Source) -> dict[str, Any]:
        """Return the settings of a model: what a proposal leaves out is taken from the base."""
        settings = {name: getattr(source, name) for name in (*WEIGHTS, *WARP, *SERVED)}
        if source.model is None and source.server is None:
            given = set(source.model_fields_set)  # a prompt replaces a chat, and a chat a prompt
            given |= {"prompt", "chat"} if given & {"prompt", "chat"} else set()
            left_out = [name for name in settings if name not in given]
            settings |= {name: getattr(self.recipe.base, name) for name in left_out}
        if settings["chat"] is not None:
            settings["chat"] = tuple((part.role, part.content) for part in settings["chat"])
        if settings["revision"] is not None and os.path.isdir(settings["model"]):
            raise RecipeError(
                f"{short_repr(settings['model'])} is a folder and has no revisions, so revision "
                f"{short_repr(settings['revision'])} would do nothing: leave it out."
            )
        return settings


def _make_guide(spec: GuideSpec, features: Mapping[str, Feature], folder: Path) -> Any:
    """Return a guide, or a proposal that a search has kept, which is placed on a base."""
    if spec.file is not None:
        path = BUILT_IN_GUIDES.get(spec.file, folder / spec.file)
        if not path.is_file():
            raise RecipeError(
                f"there is no file {short_repr(str(path), 200)}, which a guide names; built in are "
                f"{', '.join(BUILT_IN_GUIDES)}."
            )
        if path.suffix == FOUND:
            from quasir.text.found import read_proposal

            return read_proposal(path)
        return guides.load(path)
    parts: list[guides.Guide] = []
    for name in spec.mask or []:
        languages = getattr(features.get(name), "languages", None)
        if languages is None:
            raise RecipeError(
                f"the guide's mask names {short_repr(name)}, but no feature of this recipe is a "
                "language of that name: features: {valid: {language: {json_schema: ...}}}."
            )
        parts += languages
    if spec.boost is not None:
        given = spec.boost if isinstance(spec.boost, dict) else dict.fromkeys(spec.boost)
        for name in given:
            if name in features and not features[name].word_groups:
                raise RecipeError(
                    f"the guide's boost names the feature {short_repr(name)}, which looks for no "
                    "words: give the words themselves, as in boost: {geologist: 20}."
                )
        parts.append(guides.boost({features.get(n, n): f for n, f in given.items()}))
    made = parts[0]
    for part in parts[1:]:
        made = made * part
    return made
