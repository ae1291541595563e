"""Samples from a store of more draws than memory holds: shard by shard, what is accepted is kept.

Numbers are read first. The items are read last, of the shards that hold a sample, and of those the
rows that are samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from quasir.certificates.certificate import Certificate
from quasir.certificates.tradeoff import tradeoff
from quasir.core.items import concatenate
from quasir.draws.draws import Draws
from quasir.runs.sampling import (
    Chances,
    Sampled,
    compared,
    draws_wanted,
    samples_of,
)
from quasir.samplers.loop import budget_exceeded
from quasir.store import Store

__all__ = ["sample_stored"]


@dataclass(frozen=True)
class Found:
    """Accepted draws without their items, their indices in the run, and the chances of all read."""

    draws: Draws
    index: NDArray[np.intp]
    chances: Chances


def sample_stored(
    store: Store,
    certificate: Certificate,
    n: int,
    more: Callable[[int], Store] | None = None,
    max_proposals: int | None = None,
) -> Sampled:
    """Return the first n draws that beta accepts; as `sample_run`, for draws on disk.

    Parameters
    ----------
    store : Store
    certificate : Certificate
        Of the beta to sample at, from a streamed curve of this store.
    n : int
    more : callable, optional
        Called with how many draws there should be in all; returns the store that holds them.
    max_proposals : int, optional
        Draws in all, at most.

    Notes
    -----
    With the draws that `more` adds the bins of the curve may widen, and beta then moves to the
    nearest edge that is left; the certificate is that of the beta that was sampled at.

    Raises
    ------
    BudgetExceeded
        Where `max_proposals` draws hold too few accepted ones; its ``samples`` holds those.
    """
    found = _scan(store, certificate, n)
    while len(found.index) < n and more is not None:
        if max_proposals is not None and len(store) >= max_proposals:
            samples = samples_of(_with_items(store, found), found.index, len(store), certificate)
            raise budget_exceeded(samples, n, len(store), what="draws")
        store = more(draws_wanted(n, len(found.index), len(store), max_proposals))
        certificate = tradeoff(store, stream=True).at(log_beta=certificate.log_beta)
        found = _scan(store, certificate, n)
    kept = _with_items(store, found)
    samples = samples_of(kept, found.index, len(store), certificate)
    return Sampled(certificate, samples, found.index, compared(samples, certificate, found.chances))


def _scan(store: Store, certificate: Certificate, n: int) -> Found:
    """Find the first n accepted draws, reading numbers alone and no shard more than it takes."""
    parts, indices, chances, left = [], [], None, n
    for number in store.numbers():
        draws = Draws.of_shard(store, number, items=False)
        own = Chances.of(draws, certificate)
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
