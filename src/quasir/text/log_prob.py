"""Scoring texts: sorted by length, with the logits of a few hundred positions at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from quasir.core.types import Array
from quasir.text.texts import Texts
from quasir.text.warp import Warp

__all__ = ["LOGITS_AT_ONCE", "score_texts"]

LOGITS_AT_ONCE = 1 << 22
"""Logits in memory at once, instead of texts x tokens x vocabulary: 16 MB fit in a CPU cache."""

POSITIONS_AT_ONCE = 512
"""Minimum positions at once: with fewer, reading a large output matrix again dominates."""

TOKENS_AT_ONCE = 1 << 13
"""Tokens in a batch: on a CPU 512 texts of 40 tokens took a fifth longer than batches of 128."""


def score_texts(
    texts: Texts,
    hidden: Callable[[Tensor], Tensor],
    head: Callable[[Tensor], Tensor],
    *,
    warp: Warp,
    end: int | None,
    limit: int,
    rows: int,
    vocabulary: int,
    device: torch.device,
) -> Array:
    """Return log-probabilities in float64; -inf for texts that cannot be drawn.

    Parameters
    ----------
    texts : Texts
    hidden : callable
        Maps token ids (B, L), padded on the right, to hidden states (B, L + 1, d): state i
        predicts token i, and the last one follows all tokens.
    head : callable
        Maps hidden states to logits.
    warp, end, limit
        Those that texts are drawn with. A text of `limit` tokens was cut and has no end token, a
        shorter one has an end token, and a longer one cannot be drawn.
    rows : int
        Maximum number of texts at once.
    """
    lengths = texts.lengths
    log_prob = np.zeros(len(texts))
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
        ids = np.zeros((len(part), longest), dtype=np.int64)
        inside = np.arange(longest) < lengths[part][:, None]
        ids[inside] = texts.take(part).ids
        asked = np.zeros((len(part), longest + 1), dtype=np.int64)
        asked[:, :longest] = ids
        scored = np.zeros(asked.shape, dtype=bool)
        scored[:, :longest] = inside
        ends = np.flatnonzero(lengths[part] < limit)
        asked[ends, lengths[part][ends]] = end if end is not None else 0
        scored[ends, lengths[part][ends]] = end is not None
        states = hidden(torch.from_numpy(ids).to(device))
        keep = torch.from_numpy(scored).to(device)
        wanted = torch.from_numpy(asked[scored]).to(device)
        each = token_log_probs(states[keep], wanted, head, warp, vocabulary)
        owner = np.repeat(np.arange(len(part)), scored.sum(axis=1))
        log_prob[part] = np.bincount(owner, each.cpu().numpy(), minlength=len(part))
    log_prob[~possible] = -np.inf
    return log_prob


def token_log_probs(
    states: Tensor, tokens: Tensor, head: Callable[[Tensor], Tensor], warp: Warp, vocabulary: int
) -> Tensor:
    """Return the log-probability of each token in float64, a few hundred positions at a time."""
    out = torch.empty(len(tokens), dtype=torch.float64, device=tokens.device)
    step = max(POSITIONS_AT_ONCE, LOGITS_AT_ONCE // vocabulary)
    for start in range(0, len(tokens), step):
        logits = warp(head(states[start : start + step]))
        below = logits.sub_(logits.amax(dim=-1, keepdim=True))
        wanted = below.gather(1, tokens[start : start + step, None])[:, 0]
        out[start : start + step] = (wanted - below.exp_().sum(dim=-1).log()).double()
    return out
