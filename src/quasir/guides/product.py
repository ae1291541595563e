"""Products of guides: the weights of all, multiplied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from quasir.guides.boost import Boost
from quasir.guides.guide import Guide
from quasir.guides.language import Language
from quasir.guides.language_feature import LanguageFeature
from quasir.guides.machine import Ints, Machine, Rows, Weights
from quasir.guides.vocabulary import Vocabulary
from quasir.targets.feature import Feature

__all__ = ["Both"]


@dataclass(frozen=True)
class Both(Guide):
    """The product of several guides: its language is what all of them allow."""

    guides: tuple[Guide, ...]

    @classmethod
    def of(cls, guides: Sequence[Guide]) -> Guide:
        """Return the product of one or more guides; boosts become one, which comes last."""
        parts = [part for guide in guides for part in guide.parts]
        boosts = [part for part in parts if isinstance(part, Boost)]
        parts = [part for part in parts if not isinstance(part, Boost)]
        parts += [reduce(Boost.joined, boosts)] if boosts else []
        return parts[0] if len(parts) == 1 else cls(tuple(parts))

    @property
    def parts(self) -> tuple[Guide, ...]:
        """The guides that this one is the product of."""
        return self.guides

    @property
    def cuts(self) -> bool:
        """Whether one of them cuts."""
        return any(part.cuts for part in self.parts)

    @property
    def below_one(self) -> bool:
        """Whether no weight is above 1."""
        return all(part.below_one for part in self.parts)

    @property
    def feature(self) -> Feature:
        """The feature of the texts that all of them allow."""
        languages = tuple(part for part in self.parts if isinstance(part, Language))
        return LanguageFeature(languages) if languages else super().feature

    def compiled(self, vocabulary: Vocabulary) -> Machine:
        """Return the machines of all, side by side."""
        return BothMachine([part.compiled(vocabulary) for part in self.parts])

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        return {"guide": "product", "parts": [part.to_dict() for part in self.parts]}

    def __repr__(self) -> str:
        return " * ".join(map(repr, self.parts))


class BothMachine:
    """Machines side by side."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.machines = list(machines)

    def begin(self, n: int) -> BothRows:
        """Return n rows in the first state of every machine."""
        return BothRows([machine.begin(n) for machine in self.machines])


class BothRows:
    """The rows of machines side by side."""

    def __init__(self, rows: Sequence[Rows]) -> None:
        self.rows = list(rows)

    def weights(self) -> Weights:
        """Return the product of all weights."""
        each = [rows.weights() for rows in self.rows]
        masks = [weights.mask for weights in each if weights.mask is not None]
        mask = reduce(np.bitwise_and, masks) if masks else None
        return Weights(mask, tuple(entries for weights in each for entries in weights.entries))

    def advance(self, tokens: Ints) -> None:
        """Move every row of every machine on."""
        for rows in self.rows:
            rows.advance(tokens)

    def put(self, rows: Ints, fresh: Rows) -> None:
        """Let fresh rows take the places `rows` in every machine."""
        assert isinstance(fresh, BothRows)
        for own, other in zip(self.rows, fresh.rows, strict=True):
            own.put(rows, other)

    def keep(self, into: Ints, source: Ints, left: int) -> None:
        """Move rows in every machine."""
        for rows in self.rows:
            rows.keep(into, source, left)
