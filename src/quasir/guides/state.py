"""What a text says of the wanted features so far: one truth value for each, a token at a time.

A proposal may use any function of the tokens before a place; q stays exact. Features of words tell
their state from the automaton of their words. Any other boolean feature can be asked about the
text so far, at every token or, where it is slow, every few tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quasir.guides.automaton import DONE, BoostMachine
from quasir.guides.boost import Boost, feature_words
from quasir.guides.guide import Ints, Machine, Rows
from quasir.guides.vocabulary import Vocabulary
from quasir.targets.feature import Feature, WordGroup

Bits = NDArray[np.bool_]


class State(Machine):
    """The state of some features for a model's tokens.

    A feature of words has a bit for each of its groups: a word of the group is there. Another one
    has a single bit, what it says of the text so far; `every` is the number of tokens between two
    questions. `met` are the bits that say that a feature holds, by the feature's name.
    """

    def __init__(self, features: Sequence[Feature], vocabulary: Vocabulary, every: int = 1) -> None:
        self.features, self.every = tuple(features), every
        self.groups: list[WordGroup] = []
        self.asked: list[Feature] = []
        self.met: dict[str, int] = {}
        for feature in self.features:
            groups = feature_words(feature)
            if len(groups) == 1 and not feature._made_of:
                self.met[feature.name] = len(self.groups)
            self.groups += groups
            self.asked += [] if groups else [feature]
        for i, feature in enumerate(self.asked):
            self.met[feature.name] = len(self.groups) + i
        self.words = None
        if self.groups:
            boost = Boost(tuple(self.groups), (1.0,) * len(self.groups))
            self.words = BoostMachine(boost, vocabulary)
        self.pieces = vocabulary.pieces if self.asked else []
        self.end = vocabulary.end

    @property
    def bits(self) -> int:
        """How many truth values a state has."""
        return len(self.groups) + len(self.asked)

    def begin(self, n: int) -> StateRows:
        """Return n rows at the beginning of a text, where no bit is set."""
        return StateRows(self, n)


class StateRows(Rows):
    """The states of the rows of a batch."""

    def __init__(self, state: State, n: int) -> None:
        self.state, self.bits = state, np.zeros((n, state.bits), dtype=bool)
        self.places = np.zeros(n, dtype=np.int64)  # in the automaton of the words
        self.texts = [""] * n
        self.read = np.zeros(n, dtype=np.int64)

    def advance(self, tokens: Ints) -> None:
        """Move every row on by one token."""
        state = self.state
        if state.words is not None:
            self.places = state.words.after(self.places, tokens)
            self.bits[:, : len(state.groups)] = state.words.joint[self.places] == DONE
        if not state.asked:
            return
        self.read += 1
        self.texts = [
            text if token == state.end else text + state.pieces[token]
            for text, token in zip(self.texts, tokens.tolist(), strict=True)
        ]
        now = np.flatnonzero((self.read % state.every == 0) & (tokens != state.end))
        if len(now):
            texts = [self.texts[i] for i in now]
            for i, feature in enumerate(state.asked, start=len(state.groups)):
                self.bits[now, i] = feature(texts)

    def put(self, rows: Ints, fresh: StateRows) -> None:
        """Let the states of `fresh` take the places `rows`."""
        self.bits[rows], self.places[rows] = fresh.bits, fresh.places
        self.read[rows] = fresh.read
        for row, text in zip(rows.tolist(), fresh.texts, strict=True):
            self.texts[row] = text

    def keep(self, into: Ints, source: Ints, left: int) -> None:
        """Move rows `source` to the places `into`, and keep the first `left` rows."""
        for name in ("bits", "places", "read"):
            column = getattr(self, name)
            column[into] = column[source]
            setattr(self, name, column[:left])
        for to, origin in zip(into.tolist(), source.tolist(), strict=True):
            self.texts[to] = self.texts[origin]
        del self.texts[left:]
