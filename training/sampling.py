"""Drawing many texts from a small causal model: a plain batched loop over a key-value cache."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from transformers import DynamicCache, GPT2LMHeadModel

__all__ = ["sample_tokens"]


@torch.inference_mode()
def sample_tokens(
    model: GPT2LMHeadModel, count: int, new_tokens: int, seed: int, batch: int = 128
) -> Iterator[list[int]]:
    """Draw token sequences at temperature 1 from the whole vocabulary.

    Parameters
    ----------
    model : GPT2LMHeadModel
        In float32, on the CPU.
    count : int
        Number of draws. A shorter run gives the first draws of a longer one.
    new_tokens : int
        Maximum number of tokens in a text.
    seed : int
        Seed of the draws. The batch size changes them.
    batch : int

    Yields
    ------
    list of int
        The tokens after the bos token, up to the eos token or `new_tokens` of them.

    Notes
    -----
    All uniforms of a batch are drawn first, so that rows can leave the batch as they end.
    """
    end = model.config.eos_token_id
    generator = torch.Generator().manual_seed(seed)
    for start in range(0, count, batch):
        # One uniform per token; torch.multinomial needs one per vocabulary entry.
        uniforms = torch.rand(batch, new_tokens, dtype=torch.float64, generator=generator)
        tokens = torch.full((batch, new_tokens), end)
        rows = torch.arange(batch)
        last = torch.full((batch, 1), model.config.bos_token_id)
        cache = DynamicCache(config=model.config)
        for position in range(new_tokens):
            logits = model(last, past_key_values=cache, use_cache=True).logits[:, -1].float()
            cumulated = torch.softmax(logits, dim=-1).double().cumsum(dim=-1)
            level = uniforms[rows, position, None] * cumulated[:, -1:]
            last = torch.searchsorted(cumulated, level, right=True)
            tokens[rows, position] = last[:, 0]
            going_on = (tokens[rows, : position + 1] != end).all(dim=1).nonzero()[:, 0]
            # Ended rows are removed together, because each removal copies the cache.
            if len(going_on) < 0.9 * len(rows):
                if not len(going_on):
                    break
                rows, last = rows[going_on], last[going_on]
                cache.batch_select_indices(going_on)
        for row in tokens[: count - start].tolist():
            yield row[: row.index(end)] if end in row else row
