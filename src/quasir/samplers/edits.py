"""Edits of one token: insert, delete, replace (appendix G, `appx:extra-localized-mcmc`).

A masked language model gives the new token of an insertion or a replacement. Each edit has a
reverse at the same position, and both need the probabilities of the token at one masked position:
an insertion into x at i, and the deletion of position i of the result, mask the same place of the
same sequence. So one pass of the masked model gives the probabilities of both directions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from quasir.core.arguments import check_count
from quasir.core.types import Array
from quasir.errors import InputError

__all__ = ["MASK", "Edit", "Limits", "Tokens", "choose_edit", "log_directions", "positions"]

Tokens: TypeAlias = tuple[int, ...]
Operation: TypeAlias = Literal["insert", "delete", "replace"]

MASK = -1
"""The token id of the masked position."""
REVERSE: dict[Operation, Operation] = {
    "insert": "delete",
    "delete": "insert",
    "replace": "replace",
}


@dataclass(frozen=True)
class Limits:
    """The shortest and the longest allowed length of a sequence.

    Examples
    --------
    >>> Limits(0, 3).legal(0), Limits(0, 3).legal(3)
    (('insert',), ('delete', 'replace'))
    """

    shortest: int
    longest: int

    def __post_init__(self) -> None:
        check_count("min_tokens", self.shortest, least=0)
        check_count("max_tokens", self.longest)
        if self.shortest > self.longest:
            raise InputError(
                f"min_tokens is {self.shortest}, but max_tokens is {self.longest}: no sequence "
                "has such a length."
            )

    def legal(self, length: int) -> tuple[Operation, ...]:
        """Return the operations that a sequence of this length allows."""
        operations: list[Operation] = []
        if length < self.longest:
            operations.append("insert")
        if length > self.shortest:
            operations.append("delete")
        if length > 0:
            operations.append("replace")
        return tuple(operations)


@dataclass(frozen=True)
class Edit:
    """An operation and its position; an insertion at i puts the token before position i.

    Examples
    --------
    >>> edit = Edit("insert", 1)
    >>> edit.masked((7, 8)), edit.applied((7, 8), 5), edit.reverse
    ((7, -1, 8), (7, 5, 8), Edit(operation='delete', position=1))
    """

    operation: Operation
    position: int

    @property
    def reverse(self) -> Edit:
        """The edit that undoes this one."""
        return Edit(REVERSE[self.operation], self.position)

    def masked(self, tokens: Tokens) -> Tokens:
        """Return the sequence with a mask at the position of the edit."""
        i = self.position
        return (*tokens[:i], MASK, *tokens[i + (self.operation != "insert") :])

    def applied(self, tokens: Tokens, token: int) -> Tokens:
        """Return the edited sequence; a deletion ignores the token."""
        i = self.position
        middle = () if self.operation == "delete" else (token,)
        return (*tokens[:i], *middle, *tokens[i + (self.operation != "insert") :])

    def log_prob(self, length: int, limits: Limits) -> float:
        """Return the log probability of choosing this edit for a sequence of this length.

        Uniform over the legal operations, then uniform over the operation's positions.
        """
        legal = limits.legal(length)
        if self.operation not in legal:
            return -math.inf
        return -math.log(len(legal)) - math.log(positions(self.operation, length))


def positions(operation: Operation, length: int) -> int:
    """Return how many positions an operation can choose from."""
    return length + 1 if operation == "insert" else length


def choose_edit(length: int, limits: Limits, u_operation: float, u_position: float) -> Edit:
    """Return the edit that two uniforms in [0, 1) choose."""
    legal = limits.legal(length)
    operation = legal[int(u_operation * len(legal))]
    return Edit(operation, int(u_position * positions(operation, length)))


def log_directions(
    tokens: Tokens, edit: Edit, token: int, log_probs: Array, limits: Limits
) -> tuple[float, float]:
    """Return the log probabilities of the edit with this token, and of its reverse.

    `log_probs` are those of every token at the mask. Each direction has all its factors: the
    operation, the position and, for an insertion or replacement, the token.
    """
    length = len(tokens)
    forward = edit.log_prob(length, limits)
    backward = edit.reverse.log_prob(len(edit.applied(tokens, token)), limits)
    if edit.operation != "delete":
        forward += float(log_probs[token])
    if edit.operation != "insert":
        backward += float(log_probs[tokens[edit.position]])
    return forward, backward
