"""Prompts in front of texts: their keys and values, computed once and shared by all draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from quasir.core.types import Array
from quasir.text.decoding import Chooser, Decoder
from quasir.text.ring_cache import RingCache

if TYPE_CHECKING:
    from quasir.text.causal import CausalLM

__all__ = ["Prompts", "decode"]

TOKENS_AT_ONCE = 1 << 13
"""Tokens of prompts in one pass."""


@dataclass(frozen=True, eq=False)
class Prompts:
    """Some prompts of one model.

    Attributes
    ----------
    lengths : tensor (prompts,)
    layers : list of (keys, values)
        For each layer, tensors (prompts, heads, longest, d), padded on the right.
    states : tensor (prompts, d)
        The state after the last token of each.
    """

    lengths: Tensor
    layers: list[tuple[Tensor, Tensor]]
    states: Tensor

    @classmethod
    @torch.inference_mode()
    def of(cls, lm: CausalLM, prefixes: Sequence[Sequence[int]]) -> Prompts:
        """Compute the keys and values of some prefixes.

        The attention is causal and padding is on the right: no token attends to padding.
        """
        longest = max(map(len, prefixes))
        step = max(1, TOKENS_AT_ONCE // longest)
        parts = [_pass(lm, prefixes[i : i + step]) for i in range(0, len(prefixes), step)]
        lengths, layers, states = zip(*parts, strict=True)
        padded = [
            (_joined([keys for keys, _ in layer], longest), _joined([v for _, v in layer], longest))
            for layer in zip(*layers, strict=True)
        ]
        return cls(torch.cat(lengths), padded, torch.cat(states))


def _pass(
    lm: CausalLM, prefixes: Sequence[Sequence[int]]
) -> tuple[Tensor, list[tuple[Tensor, Tensor]], Tensor]:
    lengths = torch.tensor([len(prefix) for prefix in prefixes], device=lm.device)
    ids = torch.zeros((len(prefixes), int(lengths.max())), dtype=torch.int64, device=lm.device)
    for row, prefix in zip(ids, prefixes, strict=True):
        row[: len(prefix)] = torch.tensor(prefix, device=lm.device)
    cache = DynamicCache(config=lm.model.config)
    everything = torch.ones_like(ids)
    states = lm._states(
        input_ids=ids, attention_mask=everything, past_key_values=cache, use_cache=True
    )
    last = states[torch.arange(len(ids), device=lm.device), lengths - 1]
    return lengths, [(layer.keys, layer.values) for layer in cache.layers], last


def _joined(parts: list[Tensor], longest: int) -> Tensor:
    pad = torch.nn.functional.pad
    return torch.cat([pad(part, (0, 0, 0, longest - part.shape[-2])) for part in parts])


def decode(
    lm: CausalLM,
    prompts: Prompts,
    uniforms: Array,
    rows: int,
    chooser: Chooser | None = None,
    prompt: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw a text for each row of uniforms; return token ids, lengths and log q.

    Parameters
    ----------
    lm : CausalLM
    prompts : Prompts
    uniforms : array (n, max_tokens)
    rows : int
        Texts decoded at once.
    chooser : Chooser, optional
    prompt : tensor (n,), optional
        The prompt of each draw; by default the first.
    """
    ring: RingCache | None = None

    def begin(prompt: Tensor) -> None:
        nonlocal ring
        ring = RingCache(prompts.layers, prompt, lm.max_tokens - 1)

    def keep(into: Tensor, source: Tensor, left: int) -> None:
        assert ring is not None
        ring.keep(into, source, left)

    def renew(rows: Tensor, prompt: Tensor) -> None:
        assert ring is not None
        if len(prompts.lengths) > 1:
            ring.renew(rows, prompt)

    def step(tokens: Tensor, positions: Tensor, mask: Tensor, column: int) -> Tensor:
        assert ring is not None
        ring.column = column
        states = lm._states(
            input_ids=tokens,
            position_ids=positions,
            attention_mask=mask,
            past_key_values=ring,
            use_cache=True,
        )
        return lm.warp(lm._head(states[:, -1]))

    decoder = Decoder(
        begin,
        step,
        keep,
        first=lm.warp(lm._head(prompts.states)),
        lengths=prompts.lengths,
        end=lm.end,
        limit=lm.max_tokens,
        chooser=chooser,
        renew=renew,
    )
    return decoder.run(torch.from_numpy(uniforms).to(lm.device), rows, prompt)
