"""Causal language models as proposals and bases (sections 3.2 and 3.3 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import torch
from torch import Tensor

from quasir.core.types import Array, Batch, Part, Request
from quasir.errors import InputError
from quasir.guides.guide import Guide
from quasir.text.causal_decoding import (
    Prompts,
    as_chat,
    decode_together,
    prefix_tokens,
    same_family,
)
from quasir.text.guided import Guided
from quasir.text.language_model import ModelOptions, NetworkLM


class CausalLM(NetworkLM):
    """A causal language model: `sample` draws texts, `log_prob` scores them.

    A text has at most `max_tokens` tokens, and the end-of-sequence token counts as one. A text
    that ends is scored with that token, a text cut at the limit without it. The probabilities of
    all texts that can be drawn sum to 1.

    Parameters
    ----------
    name : str
        A built-in model (``quasir/biographies``), a folder, or a hub id.
    max_tokens : int
        Maximum number of tokens in a text.
    prompt : str, optional
        Text before each item; an item is the continuation alone. See `prompted`.
    chat : list of dict, optional
        Messages with role and content, instead of a prompt. They go through the tokenizer's own
        template; an item is the assistant's answer.
    temperature, top_k, top_p
        How texts are drawn; `log_prob` scores them under the same settings.
    device : str, optional
        Default: CUDA if it is available, otherwise the CPU.
    dtype : {"float32", "bfloat16", "float16"}
        Type of the weights. Log-probabilities are always float32, and their sums float64. In
        bfloat16 a draw's log q and `log_prob` of the same text differ by rounding, on SmolLM2 by
        0.2 nats per text of 20 tokens instead of 0.00002. What this means for a certificate is in
        docs/servers.md.
    device_map, quantization, revision, trust_remote_code
        Passed on to transformers; quantization is "4bit" or "8bit", by bitsandbytes.
    adapter : str, optional
        A built-in LoRA adapter, a folder that peft wrote, or a hub id.
    model, tokenizer
        A loaded transformers model and its tokenizer, instead of `name`.

    Notes
    -----
    The model reads the beginning-of-sequence token (the end-of-sequence token if the tokenizer
    has none), then the prompt, then the text. Items of the same tokenizer are scored by their
    token ids. Strings and texts of another tokenizer are encoded again and scored by the result.

    Examples
    --------
    >>> import numpy as np
    >>> import quasir as qr
    >>> base = qr.text.CausalLM("quasir/biographies", max_tokens=12)
    >>> items, log_q = base.sample(4, np.random.default_rng(0))
    >>> bool(np.allclose(base.log_prob(items), log_q, atol=1e-3))
    True
    """

    kind = "causal"
    _rows = 512

    def __init__(
        self,
        name: str | None = None,
        *,
        max_tokens: int = 40,
        prompt: str | None = None,
        chat: Any = None,
        **options: Unpack[ModelOptions],
    ) -> None:
        super().__init__(name, max_tokens=max_tokens, **options)
        self.prompt, self.chat = prompt, as_chat(chat)
        if prompt is not None and chat is not None:
            raise InputError("give a prompt or a chat, not both.")
        self.prefix = prefix_tokens(self.tokenizer, prompt, self.chat, name)
        limit = self.positions
        if limit is not None and len(self.prefix) + max_tokens - 1 > limit:
            raise InputError(
                f"max_tokens = {max_tokens}, after {len(self.prefix)} tokens of prompt, is more "
                f"than the {limit} positions of this model: set max_tokens to at most "
                f"{limit - len(self.prefix) + 1}."
            )
        self._prompt_states: Prompts | None = None
        self._shared: dict[Any, Any] = {}  # what all variants of this model have in common

    @property
    def settings(self) -> dict[str, Any]:
        """How texts are drawn: what the constructor takes beside the weights."""
        return super().settings | {"prompt": self.prompt, "chat": self.chat}

    def varied(self, **changes: Any) -> CausalLM:
        """Return a model with the same weights and some settings changed."""
        if "prompt" in changes or "chat" in changes:  # one replaces the other
            changes = {"prompt": None, "chat": None} | changes
        made = self._variant(CausalLM, **changes)
        made._shared = self._shared
        return made

    def prompted(self, prompt: str) -> CausalLM:
        """Return this model with a prompt: it draws and scores continuations of the prompt."""
        return self.varied(prompt=prompt)

    def guided(self, guide: Guide, share: float = 0.0) -> Guided:
        """Return the proposal that draws from this model with a guide (`qr.guides`).

        A `share` of the draws comes from this model itself; no ratio a(x)/q(x) exceeds 1/share.
        """
        return Guided(self, guide, share)

    def __getstate__(self) -> dict[str, Any]:
        plain = {key: kept for key, kept in self._shared.items() if key == "plain"}
        return self.__dict__ | {"_shared": plain}

    def sample_together(
        self, models: Sequence[Any], requests: Sequence[Request]
    ) -> list[Part] | None:
        """Draw rows of several models that differ in the prompt alone; None if they do not."""
        if not all(isinstance(lm, CausalLM) for lm in models) or not same_family(models):
            return None
        uniforms = [request.uniforms(self.max_tokens) for request in requests]
        return [Part(texts, log_q, None) for texts, log_q, _ in decode_together(models, uniforms)]

    def _draw(self, uniforms: Array) -> Batch:
        ((texts, log_q, _),) = decode_together([self], [uniforms])
        return Batch(texts, log_q)

    def logits(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Return the logits at chosen positions, before temperature, top-k and top-p.

        `ids` has a row for each text, padded on the right. `positions` is True where logits are
        wanted; it has one column more, and column i predicts token i. Unlike through `log_prob`,
        gradients flow back through them.
        """
        return self._head(self._hidden(ids)[positions])

    def _prompt(self) -> Prompts:
        if self._prompt_states is None:
            self._prompt_states = Prompts.of(self, [self.prefix])
        return self._prompt_states

    def forget_prompt(self) -> None:
        """Free the memory of the prompt's keys and values; they are computed again if needed."""
        self._prompt_states = None

    def _hidden(self, ids: Tensor) -> Tensor:
        prefix = torch.tensor(self.prefix, device=self.device).expand(len(ids), -1)
        whole = torch.cat([prefix, ids], dim=1)
        # The mask is causal and padding is on the right: no token attends to padding.
        everything = torch.ones_like(whole)
        states = self._states(input_ids=whole, attention_mask=everything, use_cache=False)
        return states[:, len(self.prefix) - 1 :]

    def _states(self, **inputs: Any) -> Tensor:
        """Return the last states, or the logits themselves where the model makes its own."""
        if self._plain:
            states: Tensor = self.model.base_model(**inputs).last_hidden_state
        else:
            states = self.model(**inputs).logits
        return states

    def _head(self, states: Tensor) -> Tensor:
        logits: Tensor = self.model.get_output_embeddings()(states) if self._plain else states
        return logits

    @property
    def _plain(self) -> bool:
        """Whether logits are the output embeddings times the last states, as in most models."""
        if "plain" not in self._shared:
            self._shared["plain"] = self._is_head(self.model.get_output_embeddings(), self.prefix)
        plain: bool = self._shared["plain"]
        return plain

    def __repr__(self) -> str:
        prompt = "" if self.prompt is None else f", prompt={self.prompt!r}"
        prompt = prompt if self.chat is None else f", chat={self.chat!r}"
        return f"CausalLM({self.name!r}, max_tokens={self.max_tokens}{prompt})"
