"""Loading the distributions that a recipe names; each model is loaded once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quasir.core.files import hash_of
from quasir.core.formatting import shown
from quasir.errors import RecipeError
from quasir.proposals import Mixture, Table, from_scipy
from quasir.recipes.guide_files import BUILT_IN_GUIDES, guide_of
from quasir.recipes.guide_schema import GuideSpec
from quasir.recipes.schema import Recipe, Source
from quasir.targets.feature import Feature

__all__ = ["Sources"]

WARP = ("prompt", "chat", "temperature", "top_k", "top_p")
WEIGHTS = ("model", "adapter", "revision", "dtype")


class Sources:
    """Makes the distributions of one recipe.

    Parameters
    ----------
    recipe : Recipe
        With absolute paths for models in folders; see `quasir.recipes.paths`.
    features : mapping
        The recipe's features, which guides may name.
    folder : Path
        The recipe's folder, which holds the files of guides.
    loaded : dict, optional
        What was loaded for another recipe that names the same models; it is added to.
    """

    def __init__(
        self,
        recipe: Recipe,
        features: Mapping[str, Feature] | None = None,
        folder: Path = Path(),
        loaded: dict[Any, Any] | None = None,
    ) -> None:
        self.recipe, self.features, self.folder = recipe, features or {}, folder
        self.loaded: dict[Any, Any] = {} if loaded is None else loaded
        self.models: dict[tuple[Any, ...], Any] = {}
        self.varied: dict[tuple[Any, ...], Any] = {}
        self.guides: dict[str, Path] = {}
        self._base: Any = None

    @property
    def base(self) -> Any:
        """The base; it is made once."""
        if self._base is None:
            self._base = self.make(self.recipe.base)
        return self._base

    def make(self, source: Source) -> Any:
        """Return the distribution of a source: it has `sample` and `log_prob`."""
        if source.is_base:
            return self.base
        if source.guide is not None:
            inner = self.make(source.model_copy(update={"guide": None, "share": None}))
            if not callable(getattr(inner, "guided", None)):
                raise RecipeError("a guide needs a causal language model, and the base is none.")
            if source.guide.file in BUILT_IN_GUIDES:
                self.guides[source.guide.file] = BUILT_IN_GUIDES[source.guide.file]
            return inner.guided(self._guide(source.guide), source.share or 0.0)
        if source.table is not None:
            return Table(source.table)
        if source.poisson is not None:
            from scipy import stats

            return from_scipy(stats.poisson(source.poisson))
        if source.mixture is not None:
            parts = [self.make(part) for part in source.mixture]
            return Mixture(parts, [part.weight for part in source.mixture])
        return self._round_trip(source) if source.round_trip is not None else self._model(source)

    def _guide(self, spec: GuideSpec) -> Any:
        """Return a guide; it is made once for all contexts that have the same features."""
        named = [self.features.get(name) for name in (*(spec.mask or ()), *(spec.boost or ()))]
        key = ("guide", spec.model_dump_json(), *map(id, named))
        if key not in self.loaded:
            # The features are kept with it, so that no other object gets their ids.
            self.loaded[key] = guide_of(spec, self.features, self.folder), named
        return self.loaded[key][0]

    def _weights(self, kind: Any, name: str, **settings: Any) -> tuple[Any, Any]:
        """Return a model and its tokenizer, loaded once."""
        from quasir.text.loading import load

        key = (kind, name, *settings.values())
        if key not in self.loaded:
            self.loaded[key] = load(name, kind, **settings)
        pair: tuple[Any, Any] = self.loaded[key]
        return pair

    def _round_trip(self, source: Source) -> Any:
        from quasir import text

        trip = source.round_trip
        assert trip is not None
        made = text.RoundTrip(
            self._weights("seq2seq", trip.there),
            self._weights("seq2seq", trip.back),
            trip.text,
            beams=trip.beams,
            top_k=trip.top_k,
            max_tokens=self.recipe.max_tokens,
        )
        made.name = trip.back
        self.models["round trip", trip] = made
        return made

    def _model(self, source: Source) -> Any:
        from quasir import text

        settings = {name: getattr(source, name) for name in (*WEIGHTS, *WARP)}
        if source.model is None:
            # A setting that the proposal leaves out is taken from the base; a prompt replaces a
            # chat, and a chat a prompt.
            given = set(source.model_fields_set)
            given |= {"prompt", "chat"} if given & {"prompt", "chat"} else set()
            left_out = [name for name in settings if name not in given]
            settings |= {name: getattr(self.recipe.base, name) for name in left_out}
        if settings["chat"] is not None:
            settings["chat"] = tuple((part.role, part.content) for part in settings["chat"])
        if settings["model"] is None:
            raise RecipeError(
                "the proposal names no model, and the base has none: give the proposal a model, a "
                "table or a poisson."
            )
        if settings["revision"] is not None and os.path.isdir(settings["model"]):
            raise RecipeError(
                f"{shown(settings['model'])} is a folder and has no revisions, so revision "
                f"{shown(settings['revision'])} would do nothing: leave it out."
            )
        weights = {name: settings[name] for name in WEIGHTS}
        name = weights.pop("model")
        warp = {name: settings[name] for name in WARP} | {"max_tokens": self.recipe.max_tokens}
        if source.source is not None:
            del warp["prompt"], warp["chat"]
            model, tokenizer = self._weights("seq2seq", name, **weights)
            made = text.Seq2SeqLM(source=source.source, model=model, tokenizer=tokenizer, **warp)
            made.name, made.revision, made.adapter = name, weights["revision"], weights["adapter"]
            self.models[name, source.source, *warp.values(), *weights.values()] = made
            return made
        key = (name, *weights.values())
        if key not in self.models:
            if key not in self.loaded:
                limit = self.recipe.max_tokens
                self.loaded[key] = text.CausalLM(name, max_tokens=limit, **weights)
            self.models[key] = self.loaded[key]
        ways = (*key, *warp.values())
        if ways not in self.varied:
            self.varied[ways] = self.models[key].varied(**warp)
        return self.varied[ways]

    def identities(self) -> list[dict[str, str | None]]:
        """Return what identifies each model and each built-in guide: names and hashes."""
        guides: list[dict[str, str | None]] = [
            {"name": name, "guide_sha256": hash_of(path)} for name, path in self.guides.items()
        ]
        return [_identity(model) for model in self.models.values()] + guides


def _identity(model: Any) -> dict[str, str | None]:
    revision = model.revision or getattr(model.model.config, "_commit_hash", None)
    return {
        "name": _shown(model.name),
        "revision": revision,
        "weights_sha256": _hash(model.name),
        **(
            {"adapter": _shown(model.adapter), "adapter_sha256": _hash(model.adapter)}
            if model.adapter is not None
            else {}
        ),
    }


def _shown(name: str) -> str:
    """Return a name that does not change when a folder is moved; the hash tells its content."""
    path = Path(name)
    return path.name if path.is_absolute() else name


def _hash(name: str) -> str | None:
    """Return the hash of the weights in a folder or a built-in model; None for a hub id."""
    from quasir.text.loading import BUILT_IN

    folder = BUILT_IN.get(name, Path(name))
    files = sorted(folder.glob("*.safetensors")) if os.path.isdir(folder) else []
    return hash_of(files[0]) if files else None
