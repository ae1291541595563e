"""Tokens that a chain proposes more often than its editor does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quasir.core.arguments import check_count, number, show
from quasir.core.optional import offered
from quasir.core.types import Array
from quasir.errors import InputError

__all__ = ["boost_of", "boosted"]


def boosted(probs: Array, boost: Mapping[int, float]) -> Array:
    """Return each row of probabilities mixed with point masses on the boosted tokens.

    Examples
    --------
    >>> import numpy as np
    >>> boosted(np.array([[0.5, 0.5]]), {1: 0.1})
    array([[0.45, 0.55]])
    """
    if not boost:
        return probs
    if max(boost) >= probs.shape[1]:
        raise InputError(
            f"token {max(boost)} is boosted, but the editor has {probs.shape[1]} tokens."
        )
    mixed = probs * (1.0 - sum(boost.values()))
    for token, weight in boost.items():
        mixed[:, token] += weight
    return mixed


def boost_of(boost: Mapping[str | int, float], editor: Any) -> dict[int, float]:
    """Return token -> probability, checked."""
    tokens: dict[int, float] = {}
    if not isinstance(boost, Mapping):
        raise InputError(
            f"boost is {show(boost)}, but must be a dictionary from words or token ids to "
            "probabilities."
        )
    for word, weight in boost.items():
        value = number(f"the boost of {show(word)}", weight)
        if not isinstance(word, str):
            check_count("the id of a boosted token", word, least=0)
        if not 0 < value < 1:
            raise InputError(
                f"the boost of {show(word)} is {show(weight)}, but must be between 0 and 1: the "
                "extra probability of proposing it."
            )
        token_id = offered(editor, "token_id") if isinstance(word, str) else int
        if token_id is None:
            raise InputError(
                f"{show(word)} cannot be boosted by its name: this editor has no token_id(word). "
                "Give the token's id instead."
            )
        token = token_id(word)
        tokens[token] = tokens.get(token, 0.0) + value
    if sum(tokens.values()) >= 1:
        raise InputError(
            f"the boosts sum to {sum(tokens.values()):g}, but must sum to less than 1: the editor "
            "has the rest."
        )
    return tokens
