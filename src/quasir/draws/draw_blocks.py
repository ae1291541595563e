"""Drawing block by block: the draws of a block depend only on the seed and its number."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from quasir.core.items import concatenate, take
from quasir.core.optional import offered
from quasir.core.scores import (
    check_log_scores,
    check_rescored,
    propose,
    propose_scored,
    score,
)
from quasir.core.streams import BLOCK, DrawStreams
from quasir.core.types import Array, Batch, Proposal, Target
from quasir.draws.ceiling import reaches_all
from quasir.draws.draws import Draws, joined
from quasir.proposals.mixture import Mixture
from quasir.targets.product import Product

__all__ = ["AT_ONCE", "CHECKED", "cut_doubts", "draw_blocks", "draw_pieces", "draw_rows", "scored"]

AT_ONCE = 64
"""Most blocks to propose before they are scored: enough to hide the cost of a call."""
WORTH_A_REPORT = 1.0
"""Target number of seconds between progress reports."""

CHECKED = 16
"""The first draws, which are scored again: log_prob must give what they were drawn with."""

CUT_SUPPORT = (
    "The proposal gives some items probability 0 (top-k, top-p or a guide): if the target has "
    "mass there, TVD cannot fall below that mass, KL is infinite, and the draws cannot reveal it. "
    "Mix in a proposal without a cut (Mixture), or read every estimate as on the proposal's "
    "support."
)
"""The doubt on a proposal whose `truncates` is true."""


def draw_pieces(
    target: Target,
    proposal: Proposal,
    streams: DrawStreams,
    block: int,
    stop: int,
    batch_size: int | None = None,
) -> Iterator[Draws]:
    """Yield draws from `block` on, before draw `stop`; pieces grow while they are quick."""
    at_once = 1
    while block * BLOCK < stop:
        start = time.perf_counter()
        yield draw_blocks(target, proposal, streams, block, at_once, stop, batch_size)
        block += at_once
        if time.perf_counter() - start < WORTH_A_REPORT / 4:
            at_once = min(4 * at_once, AT_ONCE)


def draw_blocks(
    target: Target,
    proposal: Proposal,
    streams: DrawStreams,
    first: int,
    blocks: int,
    stop: int | None = None,
    batch_size: int | None = None,
) -> Draws:
    """Return the draws of blocks first, first + 1, ..., but only those before draw `stop`."""
    last = first + blocks if stop is None else min(first + blocks, -(-stop // BLOCK))
    base = target.base if isinstance(target, Product) else None
    known = []
    batches = []
    for block in range(first, last):
        n = BLOCK if stop is None else min(BLOCK, stop - block * BLOCK)
        batch, log_base = _propose(proposal, n, streams.propose(block), base)
        batches.append(batch)
        known.append(log_base)
    items = concatenate([batch.items for batch in batches])
    log_q = np.concatenate([batch.log_q for batch in batches])
    if first == 0 and len(log_q):
        check_rescored(proposal, take(items, np.arange(min(CHECKED, len(log_q)))), log_q[:CHECKED])
    log_u = np.concatenate([streams.log_u(block) for block in range(first, last)])
    log_u = log_u[: len(log_q)]
    return scored(
        target,
        proposal,
        Batch(items, log_q),
        log_u=log_u,
        log_base=joined(known),
        seed=streams.seed,
        batch_size=batch_size,
    )


def cut_doubts(target: Target, proposal: Proposal) -> tuple[str, ...]:
    """Return the doubt on a proposal that may not reach all of the target, or nothing."""
    base = target.base if isinstance(target, Product) else None
    truncated = offered(proposal, "truncates") and proposal is not base
    return (CUT_SUPPORT,) if truncated and not reaches_all(target, proposal) else ()


def scored(
    target: Target,
    proposal: Proposal,
    batch: Batch,
    *,
    log_u: Array,
    log_base: Array | None,
    seed: int,
    batch_size: int | None = None,
) -> Draws:
    """Score proposed items; `log_base` is log a(x), if drawing them computed it."""
    items, log_q = batch
    doubts = cut_doubts(target, proposal)
    if not isinstance(target, Product):
        log_p = score(target, items, batch_size)
        return Draws(log_p=log_p, log_q=log_q, log_u=log_u, items=items, seed=seed, doubts=doubts)
    scores = target.scores(items, log_base=log_base, batch_size=batch_size)
    return Draws(
        log_p=check_log_scores(scores.log_p, items, repr(target)),
        log_q=log_q,
        log_u=log_u,
        items=items,
        log_base=scores.log_base,
        features=scores.features,
        seed=seed,
        spared=scores.spared,
        doubts=doubts,
    )


def draw_rows(
    target: Target, proposal: Proposal, streams: DrawStreams, block: int, start: int, stop: int
) -> Draws:
    """Return the draws of a block from row `start` on, before row `stop`."""
    base = target.base if isinstance(target, Product) else None
    batch, log_base = _propose(proposal, stop, streams.propose(block), base)
    rows = np.arange(start, stop)
    return scored(
        target,
        proposal,
        Batch(take(batch.items, rows), batch.log_q[start:]),
        log_u=streams.log_u(block)[start:stop],
        log_base=None if log_base is None else log_base[start:],
        seed=streams.seed,
    )


def _propose(
    proposal: Proposal, n: int, rng: np.random.Generator, base: Any
) -> tuple[Batch, Array | None]:
    """Draw n items, and return their log a(x) too if drawing them computed it.

    It does for draws from the base itself, from a mixture that contains it, and from the base with
    a guide.
    """
    # A short block is a whole block, cut; a prefix-stable proposal need not draw the rest.
    asked = n if offered(proposal, "prefix_stable") else BLOCK
    parts = proposal.components if isinstance(proposal, Mixture) else []
    own = [j for j, part in enumerate(parts) if part is base]
    if isinstance(proposal, Mixture) and own:
        items, log_each = proposal.sample_each(asked, rng)
        log_q, log_base = proposal.mixed(log_each), log_each[own[0]]
    elif offered(proposal, "sample_scored") and getattr(proposal, "base", None) is base:
        items, log_q, log_base = propose_scored(proposal, asked, rng)
    else:
        items, log_q = propose(proposal, asked, rng)
        log_base = log_q if proposal is base else None
    if n < asked:
        items = take(items, np.arange(n))
    return Batch(items, log_q[:n]), None if log_base is None else log_base[:n]
