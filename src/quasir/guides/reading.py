"""Guides from dictionaries and files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from quasir.core.arguments import show
from quasir.core.files import shortened
from quasir.errors import StoreError
from quasir.guides.boost import Boost
from quasir.guides.guide import Guide
from quasir.guides.language import Language
from quasir.guides.product import Both
from quasir.guides.trie import Trie
from quasir.targets.word_group import WordGroup

__all__ = ["from_dict", "load"]


def load(file: str | Path) -> Guide:
    """Read a guide that `Guide.save` wrote.

    Examples
    --------
    >>> import tempfile
    >>> import quasir as qr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     qr.guides.boost({"she": 8.0}).save(f"{folder}/guide.json")
    ...     load(f"{folder}/guide.json")
    boost({'she': 8.0})
    """
    try:
        facts = json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"the guide {shortened(file)} cannot be read: {error}.") from error
    return from_dict(facts)


def from_dict(facts: Mapping[str, Any]) -> Guide:
    """Return the guide that `Guide.to_dict` described.

    Raises
    ------
    StoreError
        If it is not what `to_dict` gives.

    Examples
    --------
    >>> import quasir as qr
    >>> guide = qr.guides.boost({"poet": 10.0})
    >>> from_dict(guide.to_dict()) == guide
    True
    """
    try:
        return _READERS[facts["guide"]](facts)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(
            f"{show(facts)} is not a guide that quasir wrote ({type(error).__name__}: {error})."
        ) from error


def _language(facts: Mapping[str, Any]) -> Guide:
    return Language(facts["kind"], facts["source"], facts["complete"], facts["name"])


def _boost(facts: Mapping[str, Any]) -> Guide:
    groups = [WordGroup(tuple(g["words"]), g["whole"], g["case"]) for g in facts["groups"]]
    fitted = tuple((name, float(value)) for name, value in facts["fitted"])
    return Boost(tuple(groups), tuple(facts["factors"]), fitted)


def _trie(facts: Mapping[str, Any]) -> Guide:
    return Trie(
        np.array(facts["parent"], dtype=np.int64),
        np.array(facts["token"], dtype=np.int64),
        np.array(facts["probability"], dtype=np.float64),
        np.array(facts["mass"], dtype=np.float64),
        np.array(facts["cut"], dtype=bool),
    )


def _product(facts: Mapping[str, Any]) -> Guide:
    return Both.of([from_dict(part) for part in facts["parts"]])


_READERS = {"language": _language, "boost": _boost, "trie": _trie, "product": _product}
