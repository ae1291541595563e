"""Scoring texts: sorted by length, with the logits of a few hundred positions at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quasir.core.types import Array
from quasir.guides.guide import Ints
from quasir.text.texts import Texts

if TYPE_CHECKING:
    from quasir.text.language_model import NetworkLM

LOGITS_AT_ONCE = 1 << 22
"""Logits in memory at once, instead of texts x tokens x vocabulary: 16 MB fit in a CPU cache."""

POSITIONS_AT_ONCE = 512
"""Minimum positions at once: with fewer, reading a large output matrix again dominates."""

TOKENS_AT_ONCE = 1 << 13
"""Tokens in a batch: on a CPU 512 texts of 40 tokens took a fifth longer than batches of 128."""


class Pass(NamedTuple):
    """A forward pass over some texts: the states before every token that is scored."""

    part: Ints  # the texts
    owner: Ints  # of each scored token, the text, as a place in `part`
    place: Ints  # its place in the text
    wanted: Ints  # the token itself; an end token follows each text that was not cut
    states: Tensor  # (tokens, d)


def score_texts(lm: NetworkLM, texts: Texts, rows: int) -> Array:
    """Return log-probabilities in float64; -inf for texts that cannot be drawn."""
    log_prob = np.full(len(texts), -np.inf)
    step = positions_at_once(lm.vocabulary_size)
    for part, owner, _, wanted, states in passes(lm, texts, rows):
        tokens = torch.from_numpy(wanted).to(lm.device)
        each = torch.empty(len(tokens), dtype=torch.float64, device=tokens.device)
        for start in range(0, len(tokens), step):
            at = slice(start, start + step)
            logits = lm.warp(lm._head(states[at]))
            below = logits.sub_(logits.amax(dim=-1, keepdim=True))
            own = below.gather(1, tokens[at, None])[:, 0]
            each[at] = (own - below.exp_().sum(dim=-1).log()).double()
        log_prob[part] = np.bincount(owner, each.cpu().numpy(), minlength=len(part))
    return log_prob


def passes(lm: NetworkLM, texts: Texts, rows: int) -> Iterator[Pass]:
    """Yield forward passes over all texts that can be drawn, the longest first."""
    end, limit, lengths = lm.end, lm.max_tokens, texts.lengths
    possible = lengths <= limit if end is not None else lengths == limit
    if end is not None and len(texts.ids):
        # The end token inside a text would have ended it.
        owner = np.repeat(np.arange(len(texts)), lengths)
        possible[owner[texts.ids == end]] = False
    order = np.flatnonzero(possible)
    order = order[np.argsort(-lengths[order], kind="stable")]
    done = 0
    while done < len(order):
        longest = int(lengths[order[done]])
        part = order[done : done + min(rows, max(1, TOKENS_AT_ONCE // (longest + 1)))]
        done += len(part)
        asked, scored = scored_tokens(texts.take(part), end, limit)
        ids, chosen = torch.from_numpy(asked[:, :longest]), torch.from_numpy(scored)
        states = lm._hidden(ids.to(lm.device))[chosen.to(lm.device)]
        owner, place = np.nonzero(scored)
        yield Pass(part, owner, place, asked[scored], states)


def scored_tokens(texts: Texts, end: int | None, limit: int) -> tuple[Ints, NDArray[np.bool_]]:
    """Return a row of tokens for each text, and which of them are scored.

    Those are its own, and the end token if the text was not cut. No token attends to what follows
    it, so the rest of a row may be anything.
    """
    lengths = texts.lengths
    place = np.arange(int(lengths.max(initial=0)) + 1)
    scored = place < lengths[:, None]
    tokens = np.zeros(scored.shape, dtype=np.int64)
    tokens[scored] = texts.ids
    if end is not None:
        ends = (lengths < limit)[:, None] & (place == lengths[:, None])
        tokens[ends] = end
        scored |= ends
    return tokens, scored


def positions_at_once(vocabulary: int) -> int:
    """Return the number of positions whose logits are in memory at once."""
    return max(POSITIONS_AT_ONCE, LOGITS_AT_ONCE // vocabulary)
