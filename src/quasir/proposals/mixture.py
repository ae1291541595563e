"""A mixture of proposals, scored as the mixture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import check_request, is_iterable, reals, show
from quasir.core.items import check_items, concatenate, take
from quasir.core.optional import offered
from quasir.core.scores import check_proposal, check_same_kind, log_prob_of, propose
from quasir.core.types import Array, Batch, Items, Proposal
from quasir.errors import InputError

__all__ = ["Mixture"]

LINE = 100
"""Longest repr."""


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

    def __init__(
        self, components: Sequence[Proposal], weights: Sequence[float] | None = None
    ) -> None:
        if isinstance(components, (str, Mapping)) or not is_iterable(components):
            raise InputError(
                f"a mixture is made of several proposals, in a list, not of {show(components)}: "
                "Mixture([first, second])."
            )
        self.components = list(components)
        if not self.components:
            raise InputError("a mixture needs at least one component.")
        for i, component in enumerate(self.components):
            check_proposal(component, f"component {i} of the mixture")
            check_same_kind(self.components[0], component)
        self.weights = _normalised(weights, len(self.components))
        kinds = {offered(component, "density") for component in self.components}
        self.density: bool | None = kinds.pop() if len(kinds) == 1 else None
        self.truncates = all(offered(c, "truncates") for c in self.components)
        self.prefix_stable = all(offered(c, "prefix_stable") for c in self.components)

    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """Draw n items; each component has a generator of its own, spawned from `rng`."""
        items, log_each = self.sample_each(n, rng)
        self.fill(log_each, items, np.arange(len(items)))
        return Batch(items, self.mixed(log_each))

    def sample_each(self, n: int, rng: np.random.Generator) -> tuple[Items, Array]:
        """Draw n items as `sample` does; return their log-probability under each component.

        It is known under the component that drew the item, and NaN elsewhere: see `fill`.
        """
        n = check_request(n, rng)
        uniforms = rng.random(n)
        which = np.searchsorted(np.cumsum(self.weights)[:-1], uniforms, side="right")
        log_each = np.full((len(self.components), n), np.nan)
        parts, places = [], []
        for j, child in enumerate(rng.spawn(len(self.components))):
            at = np.flatnonzero(which == j)
            if len(at):
                batch = propose(self.components[j], len(at), child)
                parts.append(batch.items)
                places.append(at)
                log_each[j, at] = batch.log_q
        if not places:
            return propose(self.components[0], 0, rng).items, log_each
        order = np.argsort(np.concatenate(places), kind="stable")
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
        parts = [f"{weight:.3g} {show(component, 40)}" for weight, component in pairs]
        text = f"Mixture({', '.join(parts)})"
        return text if len(text) <= LINE else f"{text[: LINE - 4]}...)"


def _normalised(weights: Any, n: int) -> Array:
    """Return n weights that sum to 1."""
    given = np.ones(n) if weights is None else reals("weights", weights)
    right = given.shape == (n,) and given.dtype != bool
    if not right or not (np.isfinite(given) & (given > 0)).all():
        raise InputError(
            f"weights are {show(weights)}, but must be {n} numbers above 0, one for each component."
        )
    # Halving n times keeps the sum of the largest floats finite, and every digit.
    scale = 1.0 if given.max() < 1e300 else 2.0 ** -int(n).bit_length()
    scaled: Array = given * scale
    scaled = scaled / scaled.sum()
    if not (scaled > 0).all():
        raise InputError(
            f"weights are {show(weights)}: the smallest is 0 beside the others, so its component "
            "would never be drawn. Leave it out, or give it a larger weight."
        )
    return scaled
