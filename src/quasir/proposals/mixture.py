"""A mixture of proposals, scored as the mixture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import check_request, is_iterable, reals
from quasir.core.formatting import short_repr
from quasir.core.items import Coded, check_items, concatenate, take
from quasir.core.scores import (
    check_log_scores,
    check_proposal,
    check_same_kind,
    log_prob_of,
    name_of,
    propose,
)
from quasir.core.types import Array, Batch, Items, Proposal, Request, optional_attribute
from quasir.errors import InputError

LINE = 100  # longest repr


class Mixture:
    """Draw from one of several proposals; log q is that of the mixture.

    Parameters
    ----------
    components : sequence of Proposal
    weights : sequence of float, optional
        By default all are equal; they are normalised.

    Examples
    --------
    >>> import quasir as qr
    >>> both = qr.Mixture([qr.Table({"a": 1}), qr.Table({"a": 1, "b": 1})], weights=[1, 3])
    >>> np.exp(both.log_prob(["a", "b"]))
    array([0.625, 0.375])
    """

    record: Any = None
    """What a search tried, and why it chose this proposal (`quasir.propose`)."""

    def __init__(
        self, components: Sequence[Proposal], weights: Sequence[float] | None = None
    ) -> None:
        usable = is_iterable(components) and not isinstance(components, (str, Mapping))
        self.components = list(components) if usable else []
        if not self.components:
            raise InputError(
                "a mixture is made of several proposals, in a list, not of "
                f"{short_repr(components)}: Mixture([first, second])."
            )
        for i, component in enumerate(self.components):
            check_proposal(component, f"component {i} of the mixture")
            check_same_kind(self.components[0], component)
        self.weights = _normalised(weights, len(self.components))
        kinds = {optional_attribute(component, "density") for component in self.components}
        self.density: bool | None = kinds.pop() if len(kinds) == 1 else None
        self.truncates = all(optional_attribute(c, "truncates") for c in self.components)
        self.ends = tuple(end for c in self.components for end in optional_attribute(c, "ends"))
        self.prefix_stable = all(optional_attribute(c, "prefix_stable") for c in self.components)

    @cached_property
    def support(self) -> Items:
        """All items that a component can give; None if one of them does not list its own."""
        parts = [optional_attribute(c, "support") for c in self.components]
        if any(part is None for part in parts):
            return None
        if all(isinstance(part, np.ndarray) for part in parts):
            return np.unique(np.concatenate(parts), axis=0)
        try:
            union = tuple(dict.fromkeys(chain.from_iterable(parts)))
        except TypeError:
            return None  # items that cannot be hashed
        return Coded(union, np.arange(len(union)))

    def strata(self, cuts: Sequence[float]) -> tuple[Items, Array]:
        """Return points that stand for all of it, and the log of the mass that each stands for."""
        asked = [optional_attribute(c, "strata") for c in self.components]
        if None in asked:
            return np.zeros(0), np.zeros(0)
        parts = [ask(cuts) for ask in asked]
        masses = [part[1] + np.log(w) for part, w in zip(parts, self.weights, strict=True)]
        return np.concatenate([part[0] for part in parts]), np.concatenate(masses)

    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """Draw n items; each component has a generator of its own, spawned from `rng`."""
        items, log_each = self.sample_each(n, rng)
        self.fill(log_each, items, np.arange(len(items)))
        return Batch(items, self.mixed(log_each))

    @property
    def draws_rows(self) -> bool:
        """Whether the components can draw some rows of a block without those before them."""
        return all(optional_attribute(c, "sample_together") is not None for c in self.components)

    def sample_each(self, n: int, rng: np.random.Generator, start: int = 0) -> tuple[Items, Array]:
        """Draw n items, those from `start` on; return log q under the component that drew each."""
        # It is NaN under the others, until `fill`; those before `start` need not be drawn.
        n = check_request(n, rng)
        uniforms = rng.random(n)
        which = np.searchsorted(np.cumsum(self.weights)[:-1], uniforms, side="right")
        log_each = np.full((len(self.components), n - start), np.nan)
        parts, indices = [], []
        for j, child in enumerate(rng.spawn(len(self.components))):
            before = int((which[:start] == j).sum())
            at = np.flatnonzero(which[start:] == j)
            if len(at):
                items, log_q = _rows(self.components[j], child, before, before + len(at))
                parts.append(items)
                indices.append(at)
                log_each[j, at] = log_q
        if not indices:
            return propose(self.components[0], 0, rng).items, log_each
        order = np.argsort(np.concatenate(indices), kind="stable")
        return take(concatenate(parts), order), log_each

    def fill(self, log_each: Array, items: Items, at: NDArray[np.intp]) -> None:
        """Find the log-probabilities of the items at `at` that are not known, in place."""
        for component, known in zip(self.components, log_each, strict=True):
            unknown = at[np.isnan(known[at])]
            if len(unknown):
                known[unknown] = log_prob_of(component, take(items, unknown))

    def log_prob(self, items: Items) -> Array:
        """Return the log of the weighted sum of the components' probabilities."""
        check_items(items)
        return self.mixed(np.array([log_prob_of(c, items) for c in self.components]))

    def mixed(self, log_each: Array) -> Array:
        """Return log q(x) from the log-probabilities under each component; NaN if one is NaN."""
        with np.errstate(invalid="ignore"):
            mixed: Array = np.logaddexp.reduce(log_each + np.log(self.weights)[:, None], axis=0)
        return mixed

    def __repr__(self) -> str:
        pairs = zip(self.weights, self.components, strict=True)
        parts = [f"{weight:.3g} {short_repr(component, 40)}" for weight, component in pairs]
        text = f"Mixture({', '.join(parts)})"
        return text if len(text) <= LINE else f"{text[: LINE - 4]}...)"


def _rows(
    proposal: Proposal, rng: np.random.Generator, start: int, stop: int
) -> tuple[Items, Array]:
    """Draw the items from `start` on, before `stop`."""
    together = optional_attribute(proposal, "sample_together") if start else None
    found = None if together is None else together([proposal], [Request(rng, start, stop)])
    if found is None:
        items, log_q = propose(proposal, stop, rng)
        return (take(items, np.arange(start, stop)), log_q[start:]) if start else (items, log_q)
    items, log_q, _ = found[0]
    return items, check_log_scores(log_q, items, name_of(proposal), "log q")


def _normalised(weights: Any, n: int) -> Array:
    """Return n weights that sum to 1."""
    given = np.ones(n) if weights is None else reals("weights", weights)
    with np.errstate(all="ignore"):
        shares: Array = given / given.sum()
    if given.shape != (n,) or given.dtype == bool or not ((given > 0) & (shares > 0)).all():
        raise InputError(
            f"weights are {short_repr(weights)}, but must be {n} numbers above 0, one for each "
            "component."
        )
    return shares
