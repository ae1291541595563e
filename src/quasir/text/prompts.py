"""What a causal model reads before a text: the tokens of a prompt or a chat, and their states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from quasir.core.formatting import escaped, short_repr
from quasir.errors import InputError

if TYPE_CHECKING:
    from quasir.text.causal import CausalLM

Chat = tuple[tuple[str, str], ...]
"""Messages as (role, content)."""

TOKENS_AT_ONCE = 1 << 13
"""Tokens of prompts in one pass."""


def as_chat(chat: Any) -> Chat | None:
    """Return checked messages."""
    if chat is None:
        return None
    listed = isinstance(chat, Sequence) and not isinstance(chat, str)
    messages = [_as_message(given) for given in chat] if listed else []
    checked = tuple(message for message in messages if message is not None)
    if not checked or len(checked) < len(messages):
        raise InputError(
            f"chat is {short_repr(chat)}, but must be a list of messages such as "
            "{'role': 'user', 'content': 'Why?'}."
        )
    return checked


def _as_message(given: Any) -> tuple[str, str] | None:
    match given:
        case {"role": str(role), "content": str(content)} if len(given) == 2:
            return role, content
        case (str(role), str(content)):
            return role, content
    return None


def prefix_tokens(
    tokenizer: Any, prompt: str | None, chat: Chat | None, name: str | None
) -> list[int]:
    """Return the token ids before a text: a prompt, or a chat up to the assistant's answer.

    A prompt comes after the beginning-of-sequence token (end-of-sequence, if there is none).
    """
    if chat is not None:
        return _chat_tokens(tokenizer, chat, name)
    start = tokenizer.bos_token_id
    start = tokenizer.eos_token_id if start is None else start
    ids = [] if prompt is None else tokenizer(prompt, add_special_tokens=False).input_ids
    prefix = [*([] if start is None else [start]), *ids]
    if not prefix:
        raise InputError(
            "this tokenizer has neither a beginning- nor an end-of-sequence token, so the "
            "model has no input for the first token: give a prompt."
        )
    return prefix


def _chat_tokens(tokenizer: Any, chat: Chat, name: str | None) -> list[int]:
    model = "this model" if name is None else escaped(name)
    if getattr(tokenizer, "chat_template", None) is None:
        raise InputError(
            f"{model} has no chat template, so it cannot be given a chat: it was not made for "
            "chats. Give it a prompt, or take a model that was (an instruct model)."
        )
    messages = [{"role": role, "content": content} for role, content in chat]
    try:
        written = tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        ids: list[int] = tokenizer(written, add_special_tokens=False).input_ids
    except Exception as error:  # a template is code of the model's makers, and raises what it likes
        raise InputError(
            f"the chat template of {model} refuses this chat: {escaped(str(error), 200)}. Its "
            f"roles are {', '.join(escaped(role) for role, _ in chat)}."
        ) from error
    if not ids:
        raise InputError(f"the chat template of {model} gives no token for this chat.")
    return ids


@dataclass(frozen=True, eq=False)
class Prompts:
    """Some prompts of one model: keys and values, computed once and shared by all draws."""

    lengths: Tensor  # (prompts,)
    layers: list[tuple[Tensor, Tensor]]  # (prompts, heads, longest, d), padded on the right
    states: Tensor  # (prompts, d): after the last token of each

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
            (_join([keys for keys, _ in layer], longest), _join([v for _, v in layer], longest))
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


def _join(parts: list[Tensor], longest: int) -> Tensor:
    pad = torch.nn.functional.pad
    return torch.cat([pad(part, (0, 0, 0, longest - part.shape[-2])) for part in parts])
