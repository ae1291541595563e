"""Optional attributes of targets, proposals and editors, beyond their protocols, with defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["offered", "speaks_for"]

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
    "sample_together": None,  # callable(proposals, requests): their draws in one batch, or None
    "log_most_base_ratio": None,  # callable(base, target): log M, a(x) <= M q(x) where P(x) > 0
    "reaches": None,  # callable(target): bool, whether q(x) > 0 wherever P(x) > 0
    # A target
    "log_z": None,  # float: the log of its sum over all items, if that is known
    # A factor of a target
    "log_most": None,  # callable(): the log of its largest value
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


def speaks_for(thing: Any, answer: str, about: str) -> bool:
    """Return whether what an object says in `answer` was written for its own method `about`.

    A subclass that changes the method, and says nothing new about it, has inherited an answer
    about another method.

    Examples
    --------
    >>> class Coin:
    ...     def toss(self): return 1
    ...     def most(self): return 1
    >>> class Die(Coin):
    ...     def toss(self): return 6
    >>> speaks_for(Coin(), "most", "toss"), speaks_for(Die(), "most", "toss")
    (True, False)
    """
    kinds = [vars(thing) if hasattr(thing, "__dict__") else {}, *map(vars, type(thing).__mro__)]

    def place(name: str) -> int:
        return next((i for i, kind in enumerate(kinds) if name in kind), len(kinds))

    return place(answer) <= place(about)
