"""A mixture of proposals, scored as the mixture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quasir.core.items import concatenate, take
from quasir.core.optional import offered
from quasir.core.scores import check_log_scores, name_of, propose
from quasir.core.types import Array, Batch, Items, Proposal
from quasir.errors import InputError

__all__ = ["Mixture"]


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
        self.components = list(components)
        if not self.components:
            raise InputError("a mixture needs at least one component.")
        given = np.ones(len(self.components)) if weights is None else np.asarray(weights, float)
        if given.shape != (len(self.components),) or not (np.isfinite(given) & (given > 0)).all():
            raise InputError(
                f"weights are {weights!r}, but must be {len(self.components)} numbers above 0, one "
                "for each component."
            )
        self.weights = given / given.sum()
        self.truncates = all(offered(c, "truncates") for c in self.components)
        self.prefix_stable = all(offered(c, "prefix_stable") for c in self.components)

    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """Draw n items; each component has a generator of its own, spawned from `rng`."""
        items, log_each = self.sample_each(n, rng)
        return Batch(items, self.mixed(log_each))

    def sample_each(self, n: int, rng: np.random.Generator) -> tuple[Items, Array]:
        """Draw n items as `sample` does; return their log-probability under each component."""
        which = np.searchsorted(np.cumsum(self.weights)[:-1], rng.random(n), side="right")
        parts, places, own = [], [], []
        for j, child in enumerate(rng.spawn(len(self.components))):
            at = np.flatnonzero(which == j)
            if len(at):
                batch = propose(self.components[j], len(at), child)
                parts.append(batch.items)
                own.append((j, batch.log_q))
                places.append(at)
        order = np.argsort(np.concatenate(places), kind="stable")
        log_each = np.empty((len(self.components), n))
        for (j, log_q), items, at in zip(own, parts, places, strict=True):
            log_each[j, at] = log_q
            for k, other in enumerate(self.components):
                if k != j:
                    log_each[k, at] = self._ask(other, items)
        return take(concatenate(parts), order), log_each

    def log_prob(self, items: Items) -> Array:
        """Return the log of the weighted sum of the components' probabilities."""
        return self.mixed(np.array([self._ask(c, items) for c in self.components]))

    def _ask(self, component: Proposal, items: Items) -> Array:
        return check_log_scores(component.log_prob(items), items, name_of(component), "log q")

    def mixed(self, log_each: Array) -> Array:
        """Return log q(x) from the log-probabilities under each component, in rows."""
        mixed: Array = np.logaddexp.reduce(log_each + np.log(self.weights)[:, None], axis=0)
        return mixed

    def __repr__(self) -> str:
        return f"Mixture({self.components!r}, weights={self.weights.tolist()!r})"
