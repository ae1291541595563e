"""Types and the two protocols that the package is built on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Batch", "Items", "Proposal", "Scorer", "Seed", "Target"]

Array: TypeAlias = NDArray[np.float64]
Items: TypeAlias = Any
"""Anything with a length whose ``[i]`` is an item: see `quasir.core.items`."""
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
