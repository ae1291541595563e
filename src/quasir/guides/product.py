"""Products of guides: the weights of all, multiplied; and guides from dictionaries and files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from quasir.core.files import shortened
from quasir.core.formatting import short_repr
from quasir.errors import InputError, StoreError
from quasir.guides.boost import Boost
from quasir.guides.guide import Guide, Ints, Machine, Rows, Setting, Weights
from quasir.guides.language import Language
from quasir.guides.matcher import LanguageFeature
from quasir.guides.trie import COLUMNS, Trie
from quasir.guides.vocabulary import Vocabulary
from quasir.targets.feature import Feature, WordGroup


@dataclass(frozen=True)
class Both(Guide):
    """The product of several guides: its language is what all of them allow."""

    guides: tuple[Guide, ...]

    @classmethod
    def of(cls, guides: Sequence[Guide]) -> Guide:
        """Return the product of one or more guides; boosts become one, which comes last."""
        parts = [part for guide in guides for part in guide.parts]
        if sum(isinstance(part, Trie) for part in parts) > 1:
            # c of one times c of the other does not telescope.
            raise InputError(
                "two tries cannot be multiplied: let one learn from the other's draws."
            )
        boosts = [part for part in parts if isinstance(part, Boost)]
        parts = [part for part in parts if not isinstance(part, Boost)]
        parts += [reduce(Boost.join, boosts)] if boosts else []
        return parts[0] if len(parts) == 1 else cls(tuple(parts))

    @property
    def parts(self) -> tuple[Guide, ...]:
        """All of them."""
        return self.guides

    @property
    def feature(self) -> Feature:
        """The feature of the texts that all of them allow."""
        languages = tuple(part for part in self.parts if isinstance(part, Language))
        return LanguageFeature(languages) if languages else super().feature

    def compile(self, vocabulary: Vocabulary) -> Machine:
        """Return the machines of all, side by side."""
        return BothMachine([part.compile(vocabulary) for part in self.parts])

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        return {"guide": "product", "parts": [part.to_dict() for part in self.parts]}

    def __repr__(self) -> str:
        return " * ".join(map(repr, self.parts))


class BothMachine(Machine):
    """Machines side by side."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.machines = list(machines)

    def begin(self, n: int) -> Rows:
        """Return n rows in the first state of every machine."""
        return _BothRows([machine.begin(n) for machine in self.machines])


class _BothRows(Rows):
    def __init__(self, rows: Sequence[Rows]) -> None:
        self.rows = list(rows)

    def weights(self) -> Weights:
        each = [rows.weights() for rows in self.rows]
        masks = [weights.mask for weights in each if weights.mask is not None]
        mask = reduce(np.bitwise_and, masks) if masks else None
        return Weights(mask, tuple(entries for weights in each for entries in weights.entries))

    def advance(self, tokens: Ints) -> None:
        for rows in self.rows:
            rows.advance(tokens)

    def put(self, rows: Ints, fresh: _BothRows) -> None:
        for own, other in zip(self.rows, fresh.rows, strict=True):
            own.put(rows, other)

    def keep(self, into: Ints, source: Ints, left: int) -> None:
        for rows in self.rows:
            rows.keep(into, source, left)


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
            f"{short_repr(facts)} is not a guide that quasir wrote ({type(error).__name__}: "
            f"{error})."
        ) from error


def _boost(facts: Mapping[str, Any]) -> Guide:
    groups = [WordGroup(tuple(g["words"]), g["whole"], g["case"]) for g in facts["groups"]]
    fitted = tuple((name, float(value)) for name, value in facts["fitted"])
    return Boost(tuple(groups), tuple(facts["factors"]), fitted, _setting(facts))


def _setting(facts: Mapping[str, Any]) -> Setting | None:
    recorded = facts.get("setting")
    return None if recorded is None else Setting.of(recorded)


_READERS: dict[str, Callable[[Mapping[str, Any]], Guide]] = {
    "language": lambda f: Language(f["kind"], f["source"], f["complete"], f["name"]),
    "boost": _boost,
    "trie": lambda f: Trie(**{name: f[name] for name in COLUMNS}, setting=_setting(f)),
    "product": lambda f: Both.of([from_dict(part) for part in f["parts"]]),
}
