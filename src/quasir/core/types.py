"""The two protocols that the package is built on, and what objects may offer beyond them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Items: TypeAlias = Any  # anything with a length whose ``[i]`` is an item: see `quasir.core.items`
Seed: TypeAlias = int | np.random.Generator | None


class Batch(NamedTuple):
    """Items from a proposal, and the log probability that each was drawn with.

    Examples
    --------
    >>> import numpy as np
    >>> batch = Batch(["heads", "tails"], np.log([0.5, 0.5]))
    >>> items, log_q = batch
    >>> items
    ['heads', 'tails']
    """

    items: Items
    log_q: Array


@runtime_checkable
class Proposal(Protocol):
    """q(x): a distribution that can be drawn from and scored.

    A proposal whose first k items of ``sample(n, rng)`` are those of ``sample(k, rng)`` for
    every k < n may have a class attribute ``prefix_stable = True``; of the last block of a run
    only the needed part is then drawn.

    Examples
    --------
    >>> class Die:
    ...     def sample(self, n, rng):
    ...         return rng.integers(1, 7, n), np.full(n, -np.log(6))
    ...     def log_prob(self, items):
    ...         return np.full(len(items), -np.log(6))
    >>> isinstance(Die(), Proposal)
    True
    """

    def sample(self, n: int, rng: np.random.Generator) -> Batch | tuple[Items, Array]:
        """Draw n items, with all random numbers from `rng`."""
        ...

    def log_prob(self, items: Items) -> Array:
        """Return log q(x), normalised, for each item."""
        ...


@runtime_checkable
class Scorer(Protocol):
    """P(x): anything that gives unnormalised log scores, -inf for impossible items.

    Examples
    --------
    >>> class Loaded:
    ...     def log_score(self, items):
    ...         return np.where(np.asarray(items) == 6, 1.0, 0.0)
    >>> isinstance(Loaded(), Scorer)
    True
    """

    def log_score(self, items: Items) -> Array:
        """Return log P(x) for each item."""
        ...


Target: TypeAlias = Scorer | Callable[[Items], Array | Sequence[float]]
"""A scorer, or a plain callable that does what `log_score` does."""


class Request(NamedTuple):
    """Rows of a block that one proposal should draw: those from `start` on, before `stop`."""

    rng: np.random.Generator
    start: int
    stop: int

    def uniforms(self, columns: int) -> Array:
        """Return the uniforms of these rows, as the whole block has them."""
        return self.rng.random((self.stop, columns))[self.start :]


class Part(NamedTuple):
    """The draws of one request: items, log q, and log a of the base where it is known."""

    items: Items
    log_q: Array
    log_base: Array | None


OPTIONAL: Mapping[str, Any] = {
    # A target or a proposal
    "density": None,  # bool: its scores are of a density, not of probabilities; None: unknown
    # A proposal
    "truncates": False,  # bool: it gives some items probability 0 (top-k, top-p)
    "prefix_stable": False,  # bool: the first k items of sample(n, rng) are sample(k, rng)
    "support": None,  # items: all that it can give, if they can be listed
    "ends": (),  # numbers where its density may begin or end, if it is over the real numbers
    "strata": None,  # callable(cuts): points for all of it, and the log of the mass of each
    "max_tokens": None,  # int: the longest sequence of tokens that it can give
    "tokenizer": None,  # the tokenizer of its texts
    "scores_given": True,  # bool: it scores items that it did not draw, at little cost
    "mismatch": 0.0,  # float: how far its scores are from what it draws with, in nats per item
    "rows_at_once": None,  # int: how many items to draw before they are kept
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


def optional_attribute(thing: Any, name: str) -> Any:
    """Return an optional attribute of an object, or its default."""
    return getattr(thing, name, OPTIONAL[name])


def overridden_together(thing: Any, answer: str, about: str) -> bool:
    """Return False if a subclass overrides the method `about` but inherits its `answer`."""
    kinds = [vars(thing) if hasattr(thing, "__dict__") else {}, *map(vars, type(thing).__mro__)]

    def place(name: str) -> int:
        return next((i for i, kind in enumerate(kinds) if name in kind), len(kinds))

    return place(answer) <= place(about)
