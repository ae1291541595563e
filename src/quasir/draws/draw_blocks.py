"""Drawing block by block: the draws of a block depend only on the seed and its number."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quasir.core.items import concatenate, take
from quasir.core.scores import (
    check_log_scores,
    check_rescored,
    name_of,
    propose,
    propose_scored,
    score,
)
from quasir.core.streams import BLOCK, DrawStreams
from quasir.core.types import Array, Items, Part, Proposal, Request, Target, optional_attribute
from quasir.draws.ceiling import reaches_all
from quasir.draws.draws import Draws, joined
from quasir.proposals.mixture import Mixture
from quasir.targets.product import Product

AT_ONCE = 64  # most blocks to propose before they are scored: enough to hide the cost of a call
WORTH_A_REPORT = 1.0  # target number of seconds between progress reports

CHECKED = 16
"""The first draws, which are scored again: log_prob must give what they were drawn with."""

NETWORK_ROWS = (16, BLOCK)
"""Least and most rows that a network computes at once; the least are those that are checked."""
NETWORK_WORK = 1 << 40
"""Parameters times tokens computed at once: 128 texts of 40 tokens from 135 million parameters, 9 s
of one core. With 32 texts at once the same core draws 11.6 instead of 14.3 per second.
"""
FASTER = 500  # what another device than a CPU does in the time of two cores
EXPENSIVE_ROWS = 64
"""Rows at once where a feature is expensive and no language model draws: it may be a network."""

CUT_SUPPORT = (
    "The proposal gives some items probability 0 (top-k, top-p or a guide): if the target has "
    "mass there, TVD cannot fall below that mass, KL is infinite, and the draws cannot reveal it. "
    "Mix in a proposal without a cut (Mixture), or read every estimate as on the proposal's "
    "support."
)
"""The warning on a proposal whose `truncates` is true."""
NEGLIGIBLE = 1e-4  # noise in nats that scores in float32 have anyway


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


def rows_at_once(target: Target, proposal: Proposal) -> int | None:
    """Return how many rows are computed at once, or None if any number gives the same bits."""
    # A network's rounding depends on the number of rows, so its size fixes that, not a clock.
    parts = (target, getattr(target, "base", None), proposal, *getattr(proposal, "components", ()))
    asked = [rows for part in parts if (rows := optional_attribute(part, "rows_at_once"))]
    if asked:
        return int(min(*asked, BLOCK))
    work = sum(_work_of(target, proposal).values())
    if work:
        least, most = NETWORK_ROWS
        return min(max(1 << int(NETWORK_WORK / work).bit_length() >> 1, least), most)
    features = target.features if isinstance(target, Product) else ()
    return EXPENSIVE_ROWS if any(feature.expensive for feature in features) else None


def _work_of(*sources: Any) -> dict[int, float]:
    """Return the parameters times tokens of each network in some distributions."""
    found: dict[int, float] = {}
    for source in sources:
        found |= _work_of(*getattr(source, "components", ()))
        for lm in (source, getattr(source, "base", None)):
            model: Any = getattr(lm, "model", None)
            tokens = optional_attribute(lm, "max_tokens")
            if tokens is not None and hasattr(model, "num_parameters"):
                slow = getattr(getattr(model, "device", None), "type", "cpu") == "cpu"
                work = model.num_parameters() * tokens / (1 if slow else FASTER)
                found[id(model)] = max(work, found.get(id(model), 0.0))
    return found


class RowMaker:
    """Makes the draws of a run from row to row: whole blocks, or rows of one block."""

    def __init__(self, target: Target, proposal: Proposal, streams: DrawStreams, last: int) -> None:
        self.target, self.proposal, self.streams, self.last = target, proposal, streams, last
        self._base = target.base if isinstance(target, Product) else None
        self._block, self._kept = -1, _Proposed([], np.empty((0, 0)), None)

    def __call__(self, start: int, stop: int) -> Draws:
        """Return the draws from `start` on, before `stop`: rows of one block, or whole blocks."""
        block, row = divmod(start, BLOCK)
        if row == 0 and stop >= min(start + BLOCK, self.last):
            blocks = -(-(stop - start) // BLOCK)
            return draw_blocks(self.target, self.proposal, self.streams, block, blocks, stop)
        return self.rows(block, row, row + stop - start, check=start == 0)

    def rows(
        self, block: int, start: int, stop: int, check: bool = False, drawn: Part | None = None
    ) -> Draws:
        """Return rows of a block, as `drawn`; with `check`, the first are scored again."""
        return _drawn(
            self.target,
            self.proposal,
            self._rows(block, start, stop, drawn),
            log_u=self.streams.log_u(block)[start:stop],
            seed=self.streams.seed,
            check=check,
        )

    def _rows(self, block: int, start: int, stop: int, drawn: Part | None) -> _Proposed:
        rng = self.streams.propose(block)
        together = optional_attribute(self.proposal, "sample_together")
        found = None if drawn is None else [drawn]
        if found is None and together is not None:
            found = together([self.proposal], [Request(rng, start, stop)])
        elif found is None and isinstance(self.proposal, Mixture) and self.proposal.draws_rows:
            items, log_each = self.proposal.sample_each(stop, rng, start)
            return _Proposed(items, log_each, None)
        if found is not None:
            items, log_q, log_a = found[0]
            log_q = check_log_scores(log_q, items, name_of(self.proposal), "log q")
            known = log_a if getattr(self.proposal, "base", None) is self._base else None
            log_base = log_q if self.proposal is self._base else known
            return _Proposed(items, log_q[None], log_base)
        if block != self._block:  # drawn once, for all of its rows
            n = min(BLOCK, self.last - block * BLOCK)
            self._block, self._kept = block, _propose(self.proposal, n, rng, self._base)
        return self._kept.rows(start, stop)


def cut_warnings(target: Target, proposal: Proposal) -> tuple[str, ...]:
    """Return the warnings on a proposal that may not reach all of the target, and on noise."""
    base = target.base if isinstance(target, Product) else None
    truncated = optional_attribute(proposal, "truncates") and proposal is not base
    cut = (CUT_SUPPORT,) if truncated and not reaches_all(target, proposal) else ()
    delta = log_ratio_noise(target, proposal)
    if delta <= NEGLIGIBLE:
        return cut
    return (
        *cut,
        f"Given texts are scored up to {delta:.2g} nats away from what they were drawn with, "
        "as far as a few texts showed. If no ratio is off by more, this adds at most "
        f"{tvd_of_noise(delta):.2g} to every TVD here, a guaranteed one too. A model in float32 "
        "has less noise (docs/servers.md).",
    )


def tvd_of_noise(delta: float) -> float:
    """Return the most that delta nats of noise in each log ratio add to a TVD (docs/servers.md)."""
    return math.tanh(delta / 2)


def log_ratio_noise(target: Target, proposal: Proposal) -> float:
    """Return the noise of a log ratio, in nats: that of the texts that are scored as given ones."""
    base = target.base if isinstance(target, Product) else target
    if proposal is base:  # its own draws have log a = log q, without noise
        return 0.0
    parts = list(_components(proposal))
    # A mixture with the base uses the same log a in P(x) and in q(x).
    others = [part for part in parts if part is not base] if len(parts) > 1 else []
    noise = [float(optional_attribute(part, "mismatch")) for part in (base, *others)]
    return noise[0] + max(noise[1:], default=0.0)


def _components(proposal: Any) -> Iterator[Any]:
    for part in getattr(proposal, "components", None) or [proposal]:
        yield from [part] if part is proposal else _components(part)


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
    """Score proposed items; those of a mixture under its other components where P(x) > 0."""
    items, log_each, known = part
    checked = np.arange(min(CHECKED, len(items)) if check else 0)
    parts = proposal.components if isinstance(proposal, Mixture) else []

    def fill(at: NDArray[np.intp]) -> None:
        if isinstance(proposal, Mixture):
            proposal.fill(log_each, items, at)

    # A language model's pass for log q of an item that the target forbids would be for nothing.
    costly = any(optional_attribute(each, "tokenizer") is not None for each in parts)
    fill(checked if costly else np.arange(len(items)))
    columns: dict[str, Any] = {}
    if isinstance(target, Product):
        own = next((j for j, each in enumerate(parts) if each is target.base), None)

        def log_base(left: NDArray[np.intp]) -> Array:
            fill(left)
            found: Array = log_each[own]
            return found

        scores = target.scores(items, known if own is None else log_base, batch_size)
        log_p = check_log_scores(scores.log_p, items, repr(target))
        columns = {name: getattr(scores, name) for name in ("log_base", "features", "spared")}
    else:
        log_p = score(target, items, batch_size)
    fill(np.flatnonzero(log_p > -np.inf))
    log_q = proposal.mixed(log_each) if isinstance(proposal, Mixture) else log_each[0]
    if len(checked):
        check_rescored(proposal, take(items, checked), log_q[checked])
    return Draws(
        log_p=log_p,
        log_q=log_q,
        log_u=log_u,
        items=items,
        seed=seed,
        warnings=cut_warnings(target, proposal),
        **columns,
    )


class _Proposed(NamedTuple):
    """Items, log q under each component (NaN where not known), and log a where it is known."""

    items: Items
    log_each: Array
    log_base: Array | None

    def rows(self, start: int, stop: int) -> _Proposed:
        known = None if self.log_base is None else self.log_base[start:stop]
        items = take(self.items, np.arange(start, stop))
        return _Proposed(items, self.log_each[:, start:stop].copy(), known)


def _propose(proposal: Proposal, n: int, rng: np.random.Generator, base: Any) -> _Proposed:
    """Draw n items, and return their log a(x) too if drawing them computed it."""
    # A short block is a whole block, cut; a prefix-stable proposal need not draw the rest.
    asked = n if optional_attribute(proposal, "prefix_stable") else BLOCK
    log_base = None
    if isinstance(proposal, Mixture):
        items, log_each = proposal.sample_each(asked, rng)
    elif optional_attribute(proposal, "sample_scored") and getattr(proposal, "base", None) is base:
        items, log_q, log_base = propose_scored(proposal, asked, rng)
        log_each = log_q[None]
    else:
        items, log_q = propose(proposal, asked, rng)
        log_base, log_each = log_q if proposal is base else None, log_q[None]
    if n < asked:
        items = take(items, np.arange(n))
    return _Proposed(items, log_each[:, :n], None if log_base is None else log_base[:n])
