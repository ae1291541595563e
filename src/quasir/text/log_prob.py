"""Scoring texts: sorted by length, with the logits of a few hundred positions at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quasir.core.types import Array
from quasir.text.texts import Texts
from quasir.text.warp import Warp

__all__ = ["LOGITS_AT_ONCE", "Pass", "passes", "score_texts", "step_of"]

LOGITS_AT_ONCE = 1 << 22
"""Logits in memory at once, instead of texts x tokens x vocabulary: 16 MB fit in a CPU cache."""

POSITIONS_AT_ONCE = 512
"""Minimum positions at once: with fewer, reading a large output matrix again dominates."""

TOKENS_AT_ONCE = 1 << 13
"""Tokens in a batch: on a CPU 512 texts of 40 tokens took a fifth longer than batches of 128."""


class Pass(NamedTuple):
    """A forward pass over some texts: the states before every token that is scored.

    Attributes
    ----------
    part : array of int
        The texts.
    owner, place : array of int
        Of each scored token, the text, as a place in `part`, and its place in the text.
    wanted : array of int
        The tokens; an end token follows each text that was not cut.
    states : tensor (tokens, d)
    """

    part: NDArray[np.int64]
    owner: NDArray[np.int64]
    place: NDArray[np.int64]
    wanted: NDArray[np.int64]
    states: Tensor


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
    log_prob = np.full(len(texts), -np.inf)
    for part, owner, _, wanted, states in passes(texts, hidden, end, limit, rows, device):
        tokens = torch.from_numpy(wanted).to(device)
        each = token_log_probs(states, tokens, head, warp, vocabulary)
        log_prob[part] = np.bincount(owner, each.cpu().numpy(), minlength=len(part))
    return log_prob


def passes(
    texts: Texts,
    hidden: Callable[[Tensor], Tensor],
    end: int | None,
    limit: int,
    rows: int,
    device: torch.device,
) -> Iterator[Pass]:
    """Yield forward passes over all texts that can be drawn, the longest first."""
    lengths = texts.lengths
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
        states = hidden(torch.from_numpy(ids).to(device))[torch.from_numpy(scored).to(device)]
        owner, place = np.nonzero(scored)
        yield Pass(part, owner, place, asked[scored], states)


def token_log_probs(
    states: Tensor, tokens: Tensor, head: Callable[[Tensor], Tensor], warp: Warp, vocabulary: int
) -> Tensor:
    """Return the log-probability of each token in float64, a few hundred positions at a time."""
    out = torch.empty(len(tokens), dtype=torch.float64, device=tokens.device)
    step = step_of(vocabulary)
    for start in range(0, len(tokens), step):
        logits = warp(head(states[start : start + step]))
        below = logits.sub_(logits.amax(dim=-1, keepdim=True))
        wanted = below.gather(1, tokens[start : start + step, None])[:, 0]
        out[start : start + step] = (wanted - below.exp_().sum(dim=-1).log()).double()
    return out


def step_of(vocabulary: int) -> int:
    """Return the number of positions whose logits are in memory at once."""
    return max(POSITIONS_AT_ONCE, LOGITS_AT_ONCE // vocabulary)
