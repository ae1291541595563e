"""Drawing from a causal model: a cache whose rows begin at different times, and many prompts.

Each step writes one column of keys and values in a ring. The mask hides from a row the columns
written before it began. The columns of each prompt are computed once and copied to its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache

from quasir.core.formatting import escaped, short_repr
from quasir.core.types import Array
from quasir.errors import InputError
from quasir.guides.guide import Ints
from quasir.text.decoding import Chooser, Decoder, Stepper, move_rows
from quasir.text.texts import Texts

if TYPE_CHECKING:
    from quasir.text.causal import CausalLM

Chat = tuple[tuple[str, str], ...]
"""Messages as (role, content)."""
PROMPT_TOKENS, TOKENS_AT_ONCE = 1 << 14, 1 << 13
"""Most tokens of prompts whose keys and values are kept at once, and that are read in one pass."""


class _RingLayer(CacheLayerMixin):  # type: ignore[misc]
    """Keys and values of some rows: the prompt of each, then a ring of `columns` columns."""

    is_sliding = False

    def __init__(self, keys: Tensor, values: Tensor, rows: Tensor, columns: int) -> None:
        super().__init__()
        self.column, self.prompt = 0, keys.shape[-2]
        self.prompt_keys, self.prompt_values = keys, values
        new = partial(torch.nn.functional.pad, pad=(0, 0, 0, columns))
        self.keys, self.values = new(keys)[rows], new(values)[rows]
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        pass  # the constructor allocates all columns

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        # All columns are returned: the mask, which the decoder builds, selects the valid ones.
        at = self.prompt + self.column
        self.keys[:, :, at] = key_states[:, :, 0]
        self.values[:, :, at] = value_states[:, :, 0]
        return self.keys, self.values

    def get_seq_length(self) -> int:
        return int(self.keys.shape[-2])

    get_max_length = get_seq_length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.get_seq_length(), 0


class _CausalStepper(Stepper):
    def __init__(self, lm: CausalLM, prompts: Prompts) -> None:
        self.lm, self.prompts, self.states = lm, prompts, prompts.states
        self.first, self.lengths = lm.warp(lm._head(prompts.states)), prompts.lengths

    def begin(self, prompt: Tensor) -> None:
        columns, layers = self.lm.max_tokens - 1, self.prompts.layers
        self.ring = Cache(layers=[_RingLayer(*layer, prompt, columns) for layer in layers])

    def step(self, tokens: Tensor, positions: Tensor, mask: Tensor, column: int) -> Tensor:
        for layer in self.ring.layers:
            layer.column = column
        states = self.lm._states(
            input_ids=tokens,
            position_ids=positions,
            attention_mask=mask,
            past_key_values=self.ring,
            use_cache=True,
        )
        self.states = states[:, -1]
        return self.lm.warp(self.lm._head(self.states))

    def renew(self, rows: Tensor, prompt: Tensor) -> None:
        if len(self.lengths) > 1:
            for layer in self.ring.layers:
                layer.keys[rows, :, : layer.prompt] = layer.prompt_keys[prompt]
                layer.values[rows, :, : layer.prompt] = layer.prompt_values[prompt]

    def keep(self, into: Tensor, source: Tensor, left: int) -> None:
        for layer in self.ring.layers:
            layer.keys = move_rows(layer.keys, into, source, left)
            layer.values = move_rows(layer.values, into, source, left)


def decode(
    lm: CausalLM,
    prompts: Prompts,
    uniforms: Array,
    rows: int,
    chooser: Chooser | None = None,
    prompt: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw a text for each row of uniforms; return token ids, lengths and log q."""
    decoder = Decoder(_CausalStepper(lm, prompts), lm.end, lm.max_tokens, chooser)
    return decoder.run(torch.from_numpy(uniforms).to(lm.device), rows, prompt)


def same_family(models: Sequence[CausalLM]) -> bool:
    """Return whether models differ in nothing but the prompt."""
    keys = [(type(lm), id(lm.model), lm.warp, lm.max_tokens) for lm in models]
    return all(key == keys[0] for key in keys)


@torch.inference_mode()
def decode_together(
    models: Sequence[CausalLM],
    uniforms: Sequence[Array],
    make_chooser: Callable[[Ints], Chooser] = lambda draws: Chooser(),
    parts: int = 0,
) -> list[tuple[Texts, Array, Array]]:
    """Return the texts and log q of every model for its rows of uniforms, and what choosers add.

    The models differ in the prompt alone. Each draw has its own uniforms, so it is the draw that
    its own model would make alone, up to floating-point ties. Prompts of similar lengths are
    decoded together, so that short ones do not wait for long ones.
    """
    lm = models[0]
    sizes = [len(each) for each in uniforms]
    owner, every = np.repeat(np.arange(len(models)), sizes), np.concatenate(list(uniforms))
    tokens = np.zeros((len(every), lm.max_tokens), dtype=np.int32)
    lengths, log_q = np.zeros(len(every), dtype=np.int64), np.zeros(len(every))
    log_each = np.zeros((parts, len(every)))
    for group in _groups([len(each.prefix) for each in models]):
        place = np.full(len(models), -1)
        place[group] = np.arange(len(group))
        draws = np.flatnonzero(place[owner] >= 0)
        # Draws of one length lie together, so that rows that begin late are no longer.
        draws = draws[np.argsort(place[owner[draws]], kind="stable")]
        if not len(draws):
            continue
        several = len(models) > 1  # what one prompt needs is computed once
        prompts = Prompts.of(lm, [models[i].prefix for i in group]) if several else lm._prompt()
        which = torch.from_numpy(place[owner[draws]]).to(lm.device)

        def attempt(
            rows: int, draws: Ints = draws, prompts: Prompts = prompts, which: Tensor = which
        ) -> tuple[Tensor, ...]:
            chooser = make_chooser(draws)
            found = decode(lm, prompts, every[draws], rows, chooser, which)
            return *found, chooser.log_each

        found = (part.cpu().numpy() for part in lm._with_less_memory(attempt))
        tokens[draws], lengths[draws], log_q[draws], log_each[:, draws] = found
    return [
        (Texts.from_rows(tokens[a:b], lengths[a:b], lm.tokenizer), log_q[a:b], log_each[:, a:b])
        for a, b in pairwise(np.cumsum([0, *sizes]))
    ]


def _groups(lengths: Sequence[int]) -> list[list[int]]:
    """Return the prompts in groups, by length, each of a bounded number of tokens."""
    groups: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        # All prompts of a group are padded to its longest, which is the last one.
        if not groups or (len(groups[-1]) + 1) * lengths[i] > PROMPT_TOKENS:
            groups.append([])
        groups[-1].append(i)
    return groups


def as_chat(chat: Any) -> Chat | None:
    """Return checked messages."""
    if chat is None:
        return None
    messages = []
    for given in chat if isinstance(chat, Sequence) and not isinstance(chat, str) else [None]:
        match given:
            case {"role": str(role), "content": str(content), **rest} if not rest:
                messages.append((role, content))
            case (str(role), str(content)):
                messages.append((role, content))
            case _:
                messages = []
                break
    if not messages:
        raise InputError(
            f"chat is {short_repr(chat)}, but must be a list of messages such as "
            "{'role': 'user', 'content': 'Why?'}."
        )
    return tuple(messages)


def prefix_tokens(
    tokenizer: Any, prompt: str | None, chat: Chat | None, name: str | None
) -> list[int]:
    """Return the token ids before a text: a prompt, or a chat up to the assistant's answer."""
    if chat is not None:
        return _chat_tokens(tokenizer, chat, "this model" if name is None else escaped(name))
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


def _chat_tokens(tokenizer: Any, chat: Chat, model: str) -> list[int]:
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
        """Compute the keys and values of some prefixes; no token attends to padding."""
        lengths = torch.tensor([len(prefix) for prefix in prefixes], device=lm.device)
        ids = torch.zeros((len(prefixes), int(lengths.max())), dtype=torch.int64, device=lm.device)
        for row, prefix in zip(ids, prefixes, strict=True):
            row[: len(prefix)] = torch.tensor(prefix, device=lm.device)
        step, states, caches = max(1, TOKENS_AT_ONCE // ids.shape[1]), [], []
        for part, ends in zip(torch.split(ids, step), torch.split(lengths, step), strict=True):
            cache, everything = DynamicCache(config=lm.model.config), torch.ones_like(part)
            found = lm._states(
                input_ids=part, attention_mask=everything, past_key_values=cache, use_cache=True
            )
            states.append(found[torch.arange(len(part), device=lm.device), ends - 1])
            caches.append([(layer.keys, layer.values) for layer in cache.layers])
        layers = [
            (torch.cat([keys for keys, _ in layer]), torch.cat([values for _, values in layer]))
            for layer in zip(*caches, strict=True)
        ]
        return cls(lengths, layers, torch.cat(states))
