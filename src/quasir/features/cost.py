"""A bound on the steps that a regular expression can take: some take longer than the universe."""

from __future__ import annotations

import importlib
import math
from typing import Any

__all__ = ["AFFORDABLE", "log_steps"]

AFFORDABLE = math.log(3e7)
"""Steps that Python's engine takes in less than about a second."""

SINGLE = {"LITERAL", "NOT_LITERAL", "ANY", "IN", "CATEGORY", "RANGE"}
"""Nodes that match one character, in one way."""
EMPTY = {"AT", "GROUPREF"}


def log_steps(pattern: str, flags: int, length: int) -> float:
    """Return the log of a bound on the steps of a search in a text of this length.

    A backtracking engine tries every way in which the pattern can match from every place. A
    repeated character can end in as many ways as the text is long; a repeated group that can itself
    match in several ways has exponentially many, for which infinity is returned, as it is for
    whatever is not understood.

    Examples
    --------
    >>> math.exp(log_steps("ab", 0, 100)) <= 500
    True
    >>> log_steps("(a+)+b", 0, 100)
    inf
    """
    try:
        tree = importlib.import_module("re._parser").parse(pattern, flags)
        return math.log(length + 1) + _sequence(tree, math.log(length + 2))
    except Exception:  # the parser is private to Python, and may change
        return math.inf


def _sequence(nodes: Any, n: float) -> float:
    """Return the log of the number of ways through nodes in a row; n is the log of the length."""
    return sum(_ways(str(op), argument, n) for op, argument in nodes)


def _ways(op: str, argument: Any, n: float) -> float:
    if op in SINGLE or op in EMPTY:
        return 0.0
    if op == "SUBPATTERN":
        return _sequence(argument[-1], n)
    if op == "ATOMIC_GROUP":
        return _sequence(argument, n)
    if op == "BRANCH":
        return _added([_sequence(branch, n) for branch in argument[1]])
    if op in ("ASSERT", "ASSERT_NOT"):
        return _sequence(argument[1], n)
    if op == "GROUPREF_EXISTS":
        return _added([_sequence(branch or [], n) for branch in argument[1:]])
    if op in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, most, body = argument
        return _repeated(least, most, body, n)
    return math.inf


def _repeated(least: int, most: int, body: Any, n: float) -> float:
    ends = min(math.log(most - least + 1), n)
    inside = _sequence(body, n)
    if inside > 0:
        # Each round multiplies the ways.
        return ends + float(most) * inside if math.log(most + 1) < n else math.inf
    return ends


def _added(ways: list[float]) -> float:
    largest = max(ways, default=0.0)
    if math.isinf(largest):
        return largest
    return largest + math.log(sum(math.exp(way - largest) for way in ways))
