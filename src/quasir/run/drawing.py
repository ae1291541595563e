"""Drawing into a store, shard by shard; stopped at any moment, it goes on from the last shard."""

from __future__ import annotations

from collections.abc import Callable

from quasir.blocks import BLOCK
from quasir.draws import Draws, draw_pieces
from quasir.progress import Progress, progress_of
from quasir.store import Store
from quasir.typing import Proposal, Target

__all__ = ["draw_into", "draw_shard"]


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
    """Draw the first `size` draws of a shard, and tell of each piece."""
    first, parts, drawn = number * store.shard_size, [], 0
    for piece in draw_pieces(target, proposal, store.seed, first // BLOCK, first + size):
        parts.append(piece)
        drawn += len(piece)
        tell(drawn)
    return Draws.concatenate(parts)
