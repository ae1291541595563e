"""Samples from a store with more draws than memory holds: shard by shard, accepted draws are kept.

The numbers of all draws are read first; then the items are read, but only those of the samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from quasir.certificates.certificate import Certificate
from quasir.certificates.choice import certified_again
from quasir.certificates.curve import tradeoff
from quasir.core.items import concatenate
from quasir.draws.draws import Draws
from quasir.runs.sampling import (
    AcceptanceSums,
    Sampled,
    compared,
    draws_wanted,
    samples_of,
)
from quasir.samplers.base import budget_exceeded
from quasir.store import Store

__all__ = ["sample_stored"]


@dataclass(frozen=True)
class Found:
    """Accepted draws without items, their indices in the run, and the chances of all draws read."""

    draws: Draws
    index: NDArray[np.intp]
    chances: AcceptanceSums


def sample_stored(
    store: Store,
    certificate: Certificate,
    n: int,
    more: Callable[[int], Store] | None = None,
    max_proposals: int | None = None,
) -> Sampled:
    """Return the first n draws that beta accepts, like `sample_run`, for draws on disk.

    Parameters
    ----------
    store : Store
    certificate : Certificate
        The certificate at the beta to sample at, from a streamed curve of this store.
    n : int
    more : callable, optional
        Called with a number of draws; returns a store with that many in all.
    max_proposals : int, optional
        Draws in all, at most.

    Notes
    -----
    The draws that `more` adds may widen the bins of the curve. Beta then moves to the nearest bin
    edge that remains, and the certificate is the one at that beta.

    Raises
    ------
    BudgetExceeded
        If too few of `max_proposals` draws are accepted; its ``samples`` holds those.
    """
    found = _scan(store, certificate, n)
    while len(found.index) < n and more is not None:
        if max_proposals is not None and len(store) >= max_proposals:
            samples = samples_of(_with_items(store, found), found.index, len(store), certificate)
            raise budget_exceeded(samples, n, len(store), what="draws")
        store = more(draws_wanted(n, len(found.index), len(store), max_proposals))
        certificate = certified_again(tradeoff(store, stream=True).evaluator, certificate)
        found = _scan(store, certificate, n)
    kept = _with_items(store, found)
    samples = samples_of(kept, found.index, len(store), certificate)
    return Sampled(certificate, samples, found.index, compared(samples, certificate, found.chances))


def _scan(store: Store, certificate: Certificate, n: int) -> Found:
    """Find the first n accepted draws; read only their numbers, and no more shards than needed."""
    parts, indices, chances, left = [], [], None, n
    for number in store.numbers():
        draws = Draws.of_shard(store, number, items=False)
        own = AcceptanceSums.of(draws, certificate)
        chances = own if chances is None else chances + own
        rows = draws.accepted(log_beta=certificate.log_beta)[:left]
        parts.append(draws.take(rows))
        indices.append(rows + number * store.shard_size)
        left -= len(rows)
        if not left:
            break
    assert chances is not None
    return Found(Draws.concatenate(parts), np.concatenate(indices), chances)


def _with_items(store: Store, found: Found) -> Draws:
    """Read the items of the accepted draws."""
    shard, row = np.divmod(found.index, store.shard_size)
    parts = [store.items_of(int(number), row[shard == number]) for number in np.unique(shard)]
    if not parts or parts[0] is None:
        return found.draws
    return replace(found.draws, items=concatenate(parts))
