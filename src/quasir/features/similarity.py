"""Similarity of texts to a given one, by sentence embeddings (section 3.3 of the paper)."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from quasir.core.arguments import check_callable, number, reals
from quasir.core.files import hash_of
from quasir.core.formatting import short_repr
from quasir.core.hub import refuse_no_model, why_silent
from quasir.core.items import text_of
from quasir.core.types import Array, Items
from quasir.errors import FeatureError, InputError
from quasir.targets.feature import Feature

__all__ = ["similarity"]

Embed = Callable[[list[str]], Any]
MODEL = "sentence-transformers/all-mpnet-base-v2"  # the paper's embedding model
BUILT_IN = Path(__file__).parents[1] / "text" / "models"
MARK = "modules.json"  # the file that every folder of a sentence-transformers model has


def similarity(
    text: str, above: float | None = None, embed: Embed | str | None = None, name: str | None = None
) -> Feature:
    """Return the cosine of a text's embedding and the given text's, or whether it is `above`.

    Parameters
    ----------
    text : str
        The text to be close to.
    above : float, optional
        Makes the feature boolean: whether the cosine is above this (the paper: 0.95).
    embed : callable or str, optional
        From a list of texts to an array of their embeddings, one per row; or the name of a model
        for sentence-transformers (extra ``text``), such as ``quasir/sentences``, which is loaded
        at the first use. By default the paper's model.
    name : str, optional

    Examples
    --------
    >>> def embed(texts):
    ...     return [[text.count("a"), text.count("b"), 1] for text in texts]
    >>> similarity("ab", embed=embed)(["ba", "bbb"]).round(2)
    array([1.  , 0.73])
    """
    if not isinstance(text, str):
        raise InputError(f"text is {short_repr(text)}, but must be a string.")
    if above is not None and not -1 <= number("above", above) <= 1:
        raise InputError(f"above is {short_repr(above)}, but a cosine is between -1 and 1.")
    if embed is None or isinstance(embed, str):
        ask: Embed = SentenceModel(embed or MODEL)
    else:
        check_callable("embed", embed, "a function from a list of texts to an array")
        ask = embed
    shown = text if len(text) <= 40 else text[:37] + "..."
    limit = "" if above is None else f" above {above:g}"
    title = f"similar to {shown!r}{limit}"
    kind = {"low": -1.0, "high": 1.0} if above is None else {"boolean": True}
    cosine = Cosine(text, above, ask)
    return Feature(title if name is None else name, cosine, batched=True, expensive=True, **kind)


@dataclass(frozen=True)
class Cosine:
    """The cosine of the embeddings of each item and of a text, or whether it is above a level."""

    text: str
    above: float | None
    embed: Embed

    def __call__(self, items: Items) -> Any:
        own = self._own
        cosines = _unit(self.embed([text_of(item) for item in items])) @ own
        # Rounding may put the cosine of a text with itself above 1.
        return np.clip(cosines, -1.0, 1.0) if self.above is None else cosines > self.above

    @cached_property
    def _own(self) -> Array:
        own: Array = _unit(self.embed([self.text]))[0]
        return own


def _unit(rows: Any) -> Array:
    array = np.atleast_2d(reals("embeddings", rows, FeatureError).astype(np.float64))
    norm = np.linalg.norm(array, axis=1, keepdims=True)
    return array / np.where(norm > 0, norm, 1.0)


def is_installed(package: str) -> bool:
    """Tell whether a package that carries a sentence model is installed; it is not imported."""
    return _in_package(package) is not None


class SentenceModel:
    """An embedding of sentences, built in, of a package, a folder or a hub; loaded at first use."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def folder(self) -> Path | None:
        if self.name.startswith("quasir/"):
            built_in = BUILT_IN / self.name.removeprefix("quasir/")
            if not (built_in / MARK).is_file():
                raise InputError(
                    f"{short_repr(self.name)} is no sentence model that comes with the package."
                )
            return built_in
        path = Path(self.name)
        return path if (path / MARK).is_file() else _in_package(self.name)

    @property
    def identity(self) -> dict[str, str | None]:
        """What identifies the model: its name, and the hash of its weights where they are here."""
        files = [] if self.folder is None else sorted(self.folder.glob("*.safetensors"))
        digest = hash_of(files[0]) if files else None
        return {
            "name": Path(self.name).name if Path(self.name).is_absolute() else self.name,
            "weights_sha256": digest,
        }

    def __call__(self, texts: list[str]) -> Array:
        """Return the embeddings of texts, one per row; 0 for white space alone."""
        network = _load(self.name, self.folder)
        written = [text for text in texts if text.strip()] or ["."]
        rows = network.encode(written, convert_to_numpy=True, show_progress_bar=False)
        found = np.zeros((len(texts), rows.shape[1]))
        at = [i for i, text in enumerate(texts) if text.strip()]
        found[at] = rows[: len(at)]
        return found


@cache
def _load(name: str, folder: Path | None) -> Any:
    """Load a model, once: features that compare with other texts share it."""
    try:
        from sentence_transformers import SentenceTransformer

        from quasir.core.products import with_packed_products
    except ImportError as error:
        raise InputError(
            "similarity's embedding needs sentence-transformers (pip install '.[text]' in a "
            "clone); or pass embed=, a function from a list of texts to an array."
        ) from error
    if folder is not None:
        # Weights that are stored in float16 would be slow, and coarse, on a CPU.
        made = SentenceTransformer(str(folder), model_kwargs={"dtype": "float32"})
        return with_packed_products(made)
    refuse_no_model(name, ["quasir/sentences"])
    silent = why_silent(name)
    try:
        made = SentenceTransformer(name, local_files_only=silent is not None)
        return with_packed_products(made)
    except (OSError, ValueError) as error:
        why = silent or str(error).partition("\n")[0]
        raise InputError(
            f"the sentence model {short_repr(name)} could not be loaded: no such folder or "
            f"package, and the hub: {why}. Use quasir/sentences, or a folder."
        ) from error


def _in_package(name: str) -> Path | None:
    """Return the folder of the sentence model that an installed package carries."""
    module = name.replace("-", "_")
    if not module.isidentifier():
        return None
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):  # such as a module that was run and not imported
        return None
    for path in (spec.submodule_search_locations or []) if spec is not None else []:
        for mark in sorted(Path(path).glob(f"**/{MARK}")):
            return mark.parent
    return None
