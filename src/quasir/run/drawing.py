"""Drawing into a store, shard by shard; stopped at any moment, it goes on from the last shard."""

from __future__ import annotations

import time
from collections.abc import Callable

from quasir.blocks import BLOCK
from quasir.draws import AT_ONCE, Draws, draw_blocks
from quasir.progress import Progress, progress_of
from quasir.store import Store
from quasir.typing import Proposal, Target

__all__ = ["draw_into", "draw_shard"]

WORTH_A_REPORT = 1.0
"""Seconds after which one wants to hear of progress: pieces are made about that long."""


def draw_into(
    store: Store, target: Target, proposal: Proposal, n: int, progress: Progress = False
) -> int:
    """Draw what a run of n draws still needs; return how many were drawn.

    Draw i depends on the store's seed and on i only, so it does not matter what was there.
    """
    missing = store.missing(n)
    wanted = sum(store.draws_in(number, n) for number in missing)
    report, done = progress_of(progress, "drawn"), 0
    for number in missing:
        size = store.draws_in(number, n)

        def tell(drawn: int, before: int = done) -> None:
            report(before + drawn, wanted, before + drawn)

        draws = draw_shard(store, target, proposal, number, size, tell)
        if draws.doubts and not store.shards:
            store.facts["doubts"] = list(draws.doubts)
        store.add(number, draws)
        done += size
    return done


def draw_shard(
    store: Store,
    target: Target,
    proposal: Proposal,
    number: int,
    size: int,
    tell: Callable[[int], None] = lambda drawn: None,
) -> Draws:
    """Draw the first `size` draws of a shard, in pieces that grow while they are quick."""
    first = number * store.blocks_a_shard
    stop, block, at_once = number * store.shard_size + size, first, 1
    parts: list[Draws] = []
    while block * BLOCK < stop:
        start = time.perf_counter()
        blocks = min(at_once, first + store.blocks_a_shard - block)
        parts.append(draw_blocks(target, proposal, store.seed, block, blocks, stop))
        block += blocks
        if time.perf_counter() - start < WORTH_A_REPORT / 4:
            at_once = min(4 * at_once, AT_ONCE)
        tell(min(block * BLOCK, stop) - first * BLOCK)
    return Draws.concatenate(parts)
