"""What a guide becomes for one tokenizer: weights of the next tokens, row by row.

A machine keeps a state for each row of a batch. It gives the weights g(s, v) of the next tokens in
these states, and moves each state on by the token that was drawn. Most weights are 1: a machine
says which tokens it forbids (a bitmask), and lists the few others.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Entries", "Ints", "Machine", "NumberedRows", "Rows", "Weights", "csr_rows", "words_of"]

Ints = NDArray[np.int64]


class Entries(NamedTuple):
    """Weights other than 0 and 1, each (row, token) once: g = value.

    `atom` numbers the fitted factor behind each value; -1 where there is none.
    """

    row: Ints
    token: Ints
    value: NDArray[np.float64]
    atom: Ints

    def at(self, places: Any) -> Entries:
        """Return the entries at some places."""
        row, token, value, atom = self
        return Entries(row[places], token[places], value[places], atom[places])


class Weights(NamedTuple):
    """The weights of all rows: the product of a bitmask and of lists of entries.

    `mask` has a bit for each token, 32 to a word, the lowest first; None allows every token.
    """

    mask: NDArray[np.int32] | None
    entries: tuple[Entries, ...]

    def of(self, tokens: Ints) -> NDArray[np.float64]:
        """Return g(s, v) of one token v for each row."""
        rows = np.arange(len(tokens))
        weight = np.ones(len(tokens))
        if self.mask is not None:
            bits = self.mask[rows, tokens // 32] >> (tokens % 32).astype(np.int32)
            weight = (bits & 1).astype(np.float64)
        for row, token, value, _ in self.entries:
            hit = tokens[row] == token
            weight[row[hit]] *= value[hit]
        return weight


class Rows(Protocol):
    """The states of the rows of a batch."""

    def weights(self) -> Weights:
        """Return the weights of the next tokens of every row."""
        ...

    def advance(self, tokens: Ints) -> None:
        """Move every row on by one token; a row may leave the language."""
        ...

    def put(self, rows: Ints, fresh: Rows) -> None:
        """Let the states of `fresh` take the places `rows`; `fresh` is not used again."""
        ...

    def keep(self, into: Ints, source: Ints, left: int) -> None:
        """Move rows `source` to the places `into`, and keep the first `left` rows."""
        ...


class Numbered(Protocol):
    """A machine whose states are numbers."""

    def entries(self, states: Ints) -> Entries:
        """Return the weights other than 1 of rows in these states."""
        ...

    def after(self, states: Ints, tokens: Ints) -> Ints:
        """Return the states that these tokens lead to."""
        ...


class NumberedRows:
    """The number of a state for each row."""

    def __init__(self, machine: Numbered, states: Ints) -> None:
        self.machine, self.states = machine, states

    def weights(self) -> Weights:
        """Return the weights of every row."""
        return Weights(None, (self.machine.entries(self.states),))

    def advance(self, tokens: Ints) -> None:
        """Move every row on by its token."""
        self.states = self.machine.after(self.states, tokens)

    def put(self, rows: Ints, fresh: Rows) -> None:
        """Let the states of `fresh` take the places `rows`."""
        assert isinstance(fresh, NumberedRows)
        self.states[rows] = fresh.states

    def keep(self, into: Ints, source: Ints, left: int) -> None:
        """Move rows `source` to the places `into`, and keep the first `left` rows."""
        self.states[into] = self.states[source]
        self.states = self.states[:left]


class Machine(Protocol):
    """A guide for one tokenizer."""

    def begin(self, n: int) -> Rows:
        """Return n rows in the first state."""
        ...


def words_of(vocabulary: int) -> int:
    """Return the number of 32-bit words of a bitmask."""
    return -(-vocabulary // 32)


def csr_rows(offsets: Ints, states: Ints) -> tuple[Ints, Ints]:
    """Return, for the lists of some states, the row that owns each entry and the entry's place.

    Examples
    --------
    >>> csr_rows(np.array([0, 2, 2, 3]), np.array([2, 0]))
    (array([0, 1, 1]), array([2, 0, 1]))
    """
    starts, lengths = offsets[states], offsets[states + 1] - offsets[states]
    row = np.repeat(np.arange(len(states)), lengths)
    ends = np.cumsum(lengths)
    place = np.arange(len(row)) - np.repeat(ends - lengths - starts, lengths)
    return row, place
