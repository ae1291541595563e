"""Optional attributes of targets, proposals and editors, beyond their protocols, with defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["offered"]

OPTIONAL: Mapping[str, Any] = {
    # A target or a proposal
    "density": None,  # bool: its scores are of a density, not of probabilities; None: unknown
    # A proposal
    "truncates": False,  # bool: it gives some items probability 0 (top-k, top-p)
    "prefix_stable": False,  # bool: the first k items of sample(n, rng) are sample(k, rng)
    "support": None,  # items: all that it can give, if they can be listed
    "max_tokens": None,  # int: the longest sequence of tokens that it can give
    "tokenizer": None,  # the tokenizer of its texts
    "sample_scored": None,  # callable(n, rng): items, log q, and log a of its `base`
    "log_most_base_ratio": None,  # callable(base, target): log of the most that a(x)/q(x) can be
    "reaches": None,  # callable(target): bool, whether q(x) > 0 wherever P(x) > 0
    # A factor of a target
    "log_most": None,  # callable(boolean): the log of its largest value
    # An editor or a differentiable target
    "encode": None,  # callable(items): its own states of these items
    "decode": None,  # callable(states): the items of these states
    "token_id": None,  # callable(word): the token of a word
    "grad_at": None,  # callable(states, sites): the gradient at one site of each state
    # The work of an engine
    "what": "task",  # str: what a message calls a task
}
"""Name -> default, for an object without that attribute."""


def offered(thing: Any, name: str) -> Any:
    """Return an optional attribute of an object, or its default.

    Examples
    --------
    >>> offered(object(), "prefix_stable")
    False
    """
    return getattr(thing, name, OPTIONAL[name])
