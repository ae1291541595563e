"""Drawing block by block: the draws of a block depend only on the seed and its number."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quasir.core.items import concatenate, take
from quasir.core.optional import offered
from quasir.core.requests import Part
from quasir.core.scores import (
    check_log_scores,
    check_rescored,
    propose,
    propose_scored,
    score,
)
from quasir.core.streams import BLOCK, DrawStreams
from quasir.core.types import Array, Items, Proposal, Target
from quasir.draws.ceiling import reaches_all
from quasir.draws.draws import Draws, joined
from quasir.proposals.mixture import Mixture
from quasir.targets.product import Product

__all__ = ["AT_ONCE", "cut_doubts", "draw_blocks", "draw_pieces", "draw_rows", "scored"]

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
    parts = []
    for block in range(first, last):
        n = BLOCK if stop is None else min(BLOCK, stop - block * BLOCK)
        parts.append(_propose(proposal, n, streams.propose(block), base))
    items = concatenate([part.items for part in parts])
    log_each = np.concatenate([part.log_each for part in parts], axis=1)
    known = joined([part.log_base for part in parts])
    log_u = np.concatenate([streams.log_u(block) for block in range(first, last)])
    return _drawn(
        target,
        proposal,
        _Proposed(items, log_each, known),
        log_u=log_u[: len(items)],
        seed=streams.seed,
        check=first == 0,
        batch_size=batch_size,
    )


def draw_rows(
    target: Target,
    proposal: Proposal,
    streams: DrawStreams,
    block: int,
    start: int,
    stop: int,
    check: bool = False,
) -> Draws:
    """Return the draws of a block from row `start` on, before row `stop`.

    With `check`, the first of them are scored again: log_prob must give what they were drawn with.
    """
    base = target.base if isinstance(target, Product) else None
    items, log_each, log_base = _propose(proposal, stop, streams.propose(block), base)
    part = _Proposed(
        take(items, np.arange(start, stop)),
        log_each[:, start:],
        None if log_base is None else log_base[start:],
    )
    log_u = streams.log_u(block)[start:stop]
    return _drawn(target, proposal, part, log_u=log_u, seed=streams.seed, check=check)


def scored(
    target: Target, proposal: Proposal, part: Part, *, log_u: Array, seed: int, check: bool = False
) -> Draws:
    """Score items that were drawn together with those of other proposals."""
    proposed = _Proposed(part.items, part.log_q[None], part.log_base)
    return _drawn(target, proposal, proposed, log_u=log_u, seed=seed, check=check)


def cut_doubts(target: Target, proposal: Proposal) -> tuple[str, ...]:
    """Return the doubt on a proposal that may not reach all of the target, or nothing."""
    base = target.base if isinstance(target, Product) else None
    truncated = offered(proposal, "truncates") and proposal is not base
    return (CUT_SUPPORT,) if truncated and not reaches_all(target, proposal) else ()


def _drawn(
    target: Target,
    proposal: Proposal,
    part: _Proposed,
    *,
    log_u: Array,
    seed: int,
    check: bool,
    batch_size: int | None = None,
) -> Draws:
    """Score proposed items."""
    items, log_each, known = part
    checked = np.arange(min(CHECKED, len(items)) if check else 0)
    if isinstance(proposal, Mixture):
        # A pass for log q of an item that the target forbids would be for nothing.
        costly = any(offered(part, "tokenizer") is not None for part in proposal.components)
        proposal.fill(log_each, items, checked if costly else np.arange(len(items)))
    log_p, scores = _scored(target, proposal, items, log_each, known, batch_size)
    log_q = proposal.mixed(log_each) if isinstance(proposal, Mixture) else log_each[0]
    if len(checked):
        check_rescored(proposal, take(items, checked), log_q[checked])
    return Draws(
        log_p=log_p,
        log_q=log_q,
        log_u=log_u,
        items=items,
        seed=seed,
        doubts=cut_doubts(target, proposal),
        **scores,
    )


def _scored(
    target: Target,
    proposal: Proposal,
    items: Items,
    log_each: Array,
    known: Array | None,
    batch_size: int | None,
) -> tuple[Array, dict[str, Any]]:
    """Return log P, and the base's and the features' columns of a product.

    Where P(x) > 0, what is missing in `log_each` is filled in.
    """
    if not isinstance(target, Product):
        log_p = score(target, items, batch_size)
        _fill(proposal, log_each, items, np.flatnonzero(log_p > -np.inf))
        return log_p, {}
    own = _component(proposal, target.base)

    def log_base(left: NDArray[np.intp]) -> Array:
        _fill(proposal, log_each, items, left)
        found: Array = log_each[own]
        return found

    scores = target.scores(items, known if own is None else log_base, batch_size)
    log_p = check_log_scores(scores.log_p, items, repr(target))
    _fill(proposal, log_each, items, np.flatnonzero(log_p > -np.inf))
    columns = {
        "log_base": scores.log_base,
        "features": scores.features,
        "spared": scores.spared,
    }
    return log_p, columns


def _fill(proposal: Proposal, log_each: Array, items: Items, at: NDArray[np.intp]) -> None:
    if isinstance(proposal, Mixture):
        proposal.fill(log_each, items, at)


def _component(proposal: Proposal, base: Any) -> int | None:
    """Return the place of the base in a mixture; None if it is not there."""
    parts = proposal.components if isinstance(proposal, Mixture) else []
    return next((j for j, part in enumerate(parts) if part is base), None)


class _Proposed(NamedTuple):
    """Items, their log q under each component of the proposal, and log a where that is known."""

    items: Items
    log_each: Array
    log_base: Array | None


def _propose(proposal: Proposal, n: int, rng: np.random.Generator, base: Any) -> _Proposed:
    """Draw n items, and return their log a(x) too if drawing them computed it.

    It does for draws from the base itself, and from the base with a guide. A mixture gives log q of
    each item under the component that drew it, and NaN under the others.
    """
    # A short block is a whole block, cut; a prefix-stable proposal need not draw the rest.
    asked = n if offered(proposal, "prefix_stable") else BLOCK
    log_base = None
    if isinstance(proposal, Mixture):
        items, log_each = proposal.sample_each(asked, rng)
    elif offered(proposal, "sample_scored") and getattr(proposal, "base", None) is base:
        items, log_q, log_base = propose_scored(proposal, asked, rng)
        log_each = log_q[None]
    else:
        items, log_q = propose(proposal, asked, rng)
        log_base, log_each = log_q if proposal is base else None, log_q[None]
    if n < asked:
        items = take(items, np.arange(n))
    return _Proposed(items, log_each[:, :n], None if log_base is None else log_base[:n])
