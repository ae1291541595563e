"""Causal language models as proposals and bases (sections 3.2 and 3.3 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quasir.core.arguments import check_count
from quasir.core.requests import Part, Request
from quasir.core.types import Array, Batch, Items
from quasir.errors import InputError
from quasir.guides.guide import Guide
from quasir.text.batch_halving import BatchHalving
from quasir.text.decoding import Chooser
from quasir.text.guided import Guided
from quasir.text.loading import named_or_given
from quasir.text.log_prob import score_texts
from quasir.text.plain_head import has_plain_head
from quasir.text.prefixes import as_chat, prefix_of
from quasir.text.prompts import Prompts, decode
from quasir.text.texts import Texts
from quasir.text.together import decode_together, same_family
from quasir.text.tokenizers import as_texts
from quasir.text.warp import Warp

__all__ = ["CausalLM"]

ROWS = 512
"""Texts decoded or scored at once, unless memory runs out."""


class CausalLM(BatchHalving):
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
        Type of the weights. Log-probabilities are always float32, and their sums float64.
    revision, trust_remote_code
        Passed on to the hub.
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
    >>> import quasir as qr
    >>> base = qr.text.CausalLM("quasir/biographies", max_tokens=12)
    >>> items, log_q = base.sample(4, np.random.default_rng(0))
    >>> bool(np.allclose(base.log_prob(items), log_q, atol=1e-3))
    True
    """

    prefix_stable = True

    def __init__(
        self,
        name: str | None = None,
        *,
        max_tokens: int = 40,
        prompt: str | None = None,
        chat: Any = None,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        device: str | None = None,
        dtype: str = "float32",
        revision: str | None = None,
        adapter: str | None = None,
        trust_remote_code: bool = False,
        model: Any = None,
        tokenizer: Any = None,
    ) -> None:
        check_count("max_tokens", max_tokens)
        self.warp = Warp(temperature, top_k, top_p)
        self.model, self.tokenizer = named_or_given(
            "causal",
            name,
            model,
            tokenizer,
            device=device,
            dtype=dtype,
            revision=revision,
            adapter=adapter,
            trust_remote_code=trust_remote_code,
        )
        self.name, self.revision, self.adapter = name, revision, adapter
        self.max_tokens, self.prompt, self.chat = max_tokens, prompt, as_chat(chat)
        if prompt is not None and chat is not None:
            raise InputError("give a prompt or a chat, not both.")
        self._rows = ROWS
        self.prefix = prefix_of(self.tokenizer, prompt, self.chat, name)
        limit = getattr(self.model.config, "max_position_embeddings", None)
        if limit is not None and len(self.prefix) + max_tokens - 1 > limit:
            raise InputError(
                f"max_tokens = {max_tokens}, after {len(self.prefix)} tokens of prompt, is more "
                f"than the {limit} positions of this model: set max_tokens to at most "
                f"{limit - len(self.prefix) + 1}."
            )
        self._prompt_states: Prompts | None = None
        self._shared: dict[Any, Any] = {}  # what all variants of this model have in common

    def prompted(self, prompt: str) -> CausalLM:
        """Return this model with a prompt: it draws and scores continuations of the prompt."""
        return self.varied(prompt=prompt)

    def guided(self, guide: Guide, share: float = 0.0) -> Guided:
        """Return the proposal that draws from this model with a guide (`qr.guides`).

        A `share` of the draws comes from this model itself; no ratio a(x)/q(x) exceeds 1/share.
        """
        return Guided(self, guide, share)

    def varied(self, **changes: Any) -> CausalLM:
        """Return a model with the same weights and some settings changed."""
        before = (
            {} if {"prompt", "chat"} & set(changes) else {"prompt": self.prompt, "chat": self.chat}
        )
        settings = {
            "max_tokens": self.max_tokens,
            **before,
            "temperature": self.warp.temperature,
            "top_k": self.warp.top_k,
            "top_p": self.warp.top_p,
            **changes,
        }
        copy = CausalLM(model=self.model, tokenizer=self.tokenizer, **settings)
        copy.name, copy.revision, copy.adapter = self.name, self.revision, self.adapter
        copy._shared, copy._rows = self._shared, self._rows
        return copy

    def __getstate__(self) -> dict[str, Any]:
        plain = {key: kept for key, kept in self._shared.items() if key == "plain"}
        return self.__dict__ | {"_shared": plain}

    @property
    def device(self) -> torch.device:
        """The device that holds the weights."""
        return torch.device(self.model.device)

    @property
    def truncates(self) -> bool:
        """Whether top-k or top-p gives some texts probability 0."""
        return self.warp.truncates

    @property
    def end(self) -> int | None:
        """The token that ends a text."""
        token: int | None = self.tokenizer.eos_token_id
        return token

    @torch.inference_mode()
    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """Draw n texts. All uniforms, one a token, are taken from `rng` before decoding starts."""
        uniforms = rng.random((n, self.max_tokens))
        tokens, lengths, log_q = self._with_less_memory(lambda rows: self._decode(uniforms, rows))
        items = Texts.from_rows(
            tokens.cpu().numpy().astype(np.int32), lengths.cpu().numpy(), self.tokenizer
        )
        return Batch(items, log_q.cpu().numpy())

    def sample_together(
        self, models: Sequence[Any], requests: Sequence[Request]
    ) -> list[Part] | None:
        """Draw rows of several models that differ in the prompt alone; None if they do not."""
        if not all(isinstance(lm, CausalLM) for lm in models) or not same_family(models):
            return None
        uniforms = [request.uniforms(self.max_tokens) for request in requests]
        return [Part(texts, log_q, None) for texts, log_q in decode_together(models, uniforms)]

    def _decode(
        self, uniforms: Array, rows: int, chooser: Chooser | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        return decode(self, self._prompt(), uniforms, rows, chooser)

    @torch.inference_mode()
    def log_prob(self, items: Items) -> Array:
        """Return the log-probability that `sample` draws each text with."""
        texts = as_texts(items, self.tokenizer)
        return self._with_less_memory(
            lambda rows: score_texts(
                texts,
                self._hidden,
                self._head,
                warp=self.warp,
                end=self.end,
                limit=self.max_tokens,
                rows=rows,
                vocabulary=self.model.config.vocab_size,
                device=self.device,
            )
        )

    log_score = log_prob
    log_z = 0.0

    def logits(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Return the logits at chosen positions, before temperature, top-k and top-p.

        Gradients flow back through them, unlike through `log_prob`.

        Parameters
        ----------
        ids : tensor (texts, length)
            Token ids, padded on the right.
        positions : boolean tensor (texts, length + 1)
            Position i predicts token i of a text; the last one follows all its tokens.

        Returns
        -------
        tensor (chosen positions, vocabulary)
        """
        return self._head(self._hidden(ids)[positions])

    def _prompt(self) -> Prompts:
        """Return the keys and values of the prefix and its last state; they are computed once."""
        if self._prompt_states is None:
            self._prompt_states = Prompts.of(self, [self.prefix])
        return self._prompt_states

    def _hidden(self, ids: Tensor) -> Tensor:
        """Return the states that predict each token of the rows, and the state after the last."""
        prefix = torch.tensor(self.prefix, device=self.device).expand(len(ids), -1)
        whole = torch.cat([prefix, ids], dim=1)
        # The mask is causal and padding is on the right: no token attends to padding.
        everything = torch.ones_like(whole)
        states = self._states(input_ids=whole, attention_mask=everything, use_cache=False)
        return states[:, len(self.prefix) - 1 :]

    @property
    def _plain(self) -> bool:
        """Whether logits are the output embeddings times the last states, as in most models."""
        if "plain" not in self._shared:
            ids = torch.tensor([self.prefix], device=self.device)
            self._shared["plain"] = has_plain_head(self.model, ids)
        plain: bool = self._shared["plain"]
        return plain

    def _states(self, **inputs: Any) -> Tensor:
        if self._plain:
            states: Tensor = self.model.base_model(**inputs).last_hidden_state
            return states
        logits: Tensor = self.model(**inputs).logits
        return logits

    def _head(self, states: Tensor) -> Tensor:
        logits: Tensor = self.model.get_output_embeddings()(states) if self._plain else states
        return logits

    def __repr__(self) -> str:
        prompt = "" if self.prompt is None else f", prompt={self.prompt!r}"
        prompt = prompt if self.chat is None else f", chat={self.chat!r}"
        return f"CausalLM({self.name!r}, max_tokens={self.max_tokens}{prompt})"

    def encode(self, texts: Sequence[str]) -> Texts:
        """Encode texts with this model's tokenizer."""
        return as_texts(list(texts), self.tokenizer)
