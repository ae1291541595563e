"""Guides, and the machines that they become for one tokenizer: weights of the next tokens.

In a state s a guide gives the next token v the weight g(s, v) >= 0. The guided model draws it with
probability a(v | x) g(s, v)/G, G being the sum over all tokens. A machine keeps a state for each
row of a batch. Most weights are 1: it forbids tokens by a bitmask, and lists the few others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quasir.core.files import write_json
from quasir.core.formatting import short_repr
from quasir.errors import InputError
from quasir.guides.vocabulary import Vocabulary
from quasir.targets.feature import Feature

Ints = NDArray[np.int64]
Fact = str | int | float | None

SAMPLING = ("temperature", "top_k", "top_p", "max_tokens")
FACTS = ("weights", "tokenizer", "prompt", *SAMPLING, "languages", "matcher")
"""All facts of a setting. `quasir.text.fingerprints` finds them."""


@dataclass(frozen=True)
class Setting:
    """All that something learned or fitted depends on: short values, and hashes of long ones."""

    facts: tuple[tuple[str, Fact], ...] = ()

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Setting:
        """Return the setting of these facts."""
        for fact in facts.values():
            if not isinstance(fact, Fact):
                raise TypeError(f"a fact of a setting is {short_repr(fact)}")
        return cls(tuple(sorted(facts.items())))

    def to_dict(self) -> dict[str, Fact]:
        """Return the facts, JSON-ready."""
        return dict(self.facts)

    def difference(self, here: Setting) -> str:
        """Return in words which of the facts of `here` are others, or not recorded; or nothing."""
        own, said = self.to_dict(), []
        for name, now in here.facts:
            if name not in own:
                said.append(f"{name} is {short_repr(now)} here, and was not recorded")
            elif own[name] != now:
                said.append(f"{name} was {short_repr(own[name])}, and is {short_repr(now)} here")
        return "; ".join(said)

    def common(self, other: Setting) -> Setting:
        """Return the facts that are the same in both."""
        return Setting(tuple(fact for fact in self.facts if fact in other.facts))


class Guide:
    """Weights of the next tokens; `first * second` multiplies them.

    Guides are values: they can be compared, hashed, pickled, and written to a file.

    Examples
    --------
    >>> import quasir as qr
    >>> both = qr.guides.regex("[a-z ]+") * qr.guides.boost({"poet": 10.0})
    >>> qr.guides.from_dict(both.to_dict()) == both
    True
    """

    setting: Setting | None = None
    """Where it was learned or fitted."""
    forbids = False
    """Whether its weights are at most 1 and some are 0; otherwise all are above 0."""

    @property
    def depends_on(self) -> tuple[str, ...]:
        """The facts of its setting without which it means nothing, or is not true."""
        return ()

    @property
    def parts(self) -> tuple[Guide, ...]:
        """The guides that this one is the product of."""
        return (self,)

    @property
    def cuts(self) -> bool:
        """Whether some weights are 0, so that some texts cannot be drawn."""
        return any(part.forbids for part in self.parts)

    @property
    def below_one(self) -> bool:
        """Whether no weight is above 1."""
        return all(part.forbids for part in self.parts)

    @property
    def feature(self) -> Feature:
        """The feature of the texts that the guide allows."""
        raise InputError(f"{self!r} allows every text: only guides with a language have a feature.")

    def compile(self, vocabulary: Vocabulary) -> Machine:
        """Return the machine of this guide for a model's tokens."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary, which `qr.guides.from_dict` reads."""
        raise NotImplementedError

    @property
    def fingerprint(self) -> str:
        """A hash of everything that the guide's weights depend on."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def save(self, file: str | Path) -> None:
        """Write the guide to a JSON file, which `qr.guides.load` reads."""
        write_json(Path(file), self.to_dict())

    def __mul__(self, other: Any) -> Guide:
        from quasir.guides.product import Both

        return Both.of([self, other]) if isinstance(other, Guide) else NotImplemented


class Entries(NamedTuple):
    """Weights other than 0 and 1, each (row, token) once."""

    row: Ints
    token: Ints
    value: NDArray[np.float64]
    atom: Ints  # numbers the fitted factor behind each value; -1 where there is none

    def at(self, places: Any) -> Entries:
        """Return the entries at some places."""
        return Entries(*(column[places] for column in self))


class Weights(NamedTuple):
    """The weights of all rows: the product of a bitmask and of lists of entries."""

    mask: NDArray[np.int32] | None  # a bit per token, the lowest first; None allows every token
    entries: tuple[Entries, ...]

    def of(self, tokens: Ints) -> NDArray[np.float64]:
        """Return g(s, v) of one token v for each row."""
        weight = np.ones(len(tokens))
        if self.mask is not None:
            words = self.mask[np.arange(len(tokens)), tokens // 32]
            weight = (words >> (tokens % 32).astype(np.int32) & 1).astype(np.float64)
        for row, token, value, _ in self.entries:
            hit = tokens[row] == token
            weight[row[hit]] *= value[hit]
        return weight


class Rows:
    """The states of the rows of a batch, in columns with an entry for each row."""

    columns: tuple[str, ...] = ()

    def weights(self) -> Weights:
        """Return the weights of the next tokens of every row."""
        raise NotImplementedError

    def advance(self, tokens: Ints) -> None:
        """Move every row on by one token; a row may leave the language."""
        raise NotImplementedError

    def put(self, rows: Ints, fresh: Any) -> None:
        """Let the states of `fresh` take the places `rows`; `fresh` is not used again."""
        for name in self.columns:
            getattr(self, name)[rows] = getattr(fresh, name)

    def keep(self, into: Ints, source: Ints, left: int) -> None:
        """Move rows `source` to the places `into`, and keep the first `left` rows."""
        for name in self.columns:
            column = getattr(self, name)
            column[into] = column[source]
            setattr(self, name, column[:left])


class Machine:
    """A guide for one tokenizer; by default its states are numbers, and the first is 0."""

    def begin(self, n: int) -> Rows:
        """Return n rows in the first state."""
        return _NumberedRows(self, np.zeros(n, dtype=np.int64))

    def entries(self, states: Ints) -> Entries:
        """Return the weights other than 1 of rows in these states."""
        raise NotImplementedError

    def after(self, states: Ints, tokens: Ints) -> Ints:
        """Return the states that these tokens lead to."""
        raise NotImplementedError


class _NumberedRows(Rows):
    columns = ("states",)

    def __init__(self, machine: Machine, states: Ints) -> None:
        self.machine, self.states = machine, states

    def weights(self) -> Weights:
        return Weights(None, (self.machine.entries(self.states),))

    def advance(self, tokens: Ints) -> None:
        self.states = self.machine.after(self.states, tokens)
