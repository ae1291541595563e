"""Causal language models as proposals and bases (sections 3.2 and 3.3 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from quasir.core.arguments import check_count
from quasir.core.types import Array, Batch, Items
from quasir.errors import InputError
from quasir.text.batch_halving import with_less_memory
from quasir.text.decoding import Decoder
from quasir.text.loading import named_or_given
from quasir.text.log_prob import score_texts
from quasir.text.ring_cache import RingCache
from quasir.text.texts import Texts
from quasir.text.tokenizers import as_texts
from quasir.text.warp import Warp

__all__ = ["CausalLM"]

ROWS = 512
"""Texts decoded or scored at once, unless memory runs out."""


class CausalLM:
    """A causal language model: `sample` draws texts, `log_prob` scores them.

    A text is at most `max_tokens` tokens, the end-of-sequence token included: one that ends
    sooner is scored with that token, one that is cut at the limit without. Summed over every
    text that can come out, the probabilities are 1.

    Parameters
    ----------
    name : str
        A model that is built in (``quasir/biographies``), a folder, or a hub id.
    max_tokens : int
        Tokens drawn at most.
    prompt : str, optional
        Text that comes before; only the continuation is an item. See `prompted`.
    temperature, top_k, top_p
        How to draw, and so what `log_prob` is the log of.
    device : str, optional
        By default CUDA where there is one.
    dtype : {"float32", "bfloat16", "float16"}
        Of the weights; log-probabilities are float32 and their sums float64 always.
    revision, adapter, trust_remote_code
        Passed on to the hub; the adapter is a LoRA folder that peft wrote.
    model, tokenizer
        Instead of `name`, a transformers model and tokenizer at hand.

    Notes
    -----
    A text begins after the beginning-of-sequence token, or the end-of-sequence token where the
    tokenizer has none, and after it the prompt. Items of the same tokenizer are scored by their
    token ids; strings, and texts of another tokenizer, by their text, encoded anew.
    """

    prefix_stable = True

    def __init__(
        self,
        name: str | None = None,
        *,
        max_tokens: int = 40,
        prompt: str | None = None,
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
        self.max_tokens, self.prompt = max_tokens, prompt
        self._rows = ROWS
        self.prefix = self._prefix(prompt)
        limit = getattr(self.model.config, "max_position_embeddings", None)
        if limit is not None and len(self.prefix) + max_tokens - 1 > limit:
            raise InputError(
                f"max_tokens = {max_tokens} after a beginning of {len(self.prefix)} tokens is more "
                f"than the {limit} positions of this model: ask for at most "
                f"{limit - len(self.prefix) + 1}."
            )
        self._prompt_states: tuple[Any, Tensor] | None = None

    def prompted(self, prompt: str) -> CausalLM:
        """Return this model conditional on a prompt: it draws and scores the continuation."""
        return self.varied(prompt=prompt)

    def varied(self, **changes: Any) -> CausalLM:
        """Return the same model with another prompt or way to draw; the weights are shared."""
        settings = {
            "max_tokens": self.max_tokens,
            "prompt": self.prompt,
            "temperature": self.warp.temperature,
            "top_k": self.warp.top_k,
            "top_p": self.warp.top_p,
            **changes,
        }
        copy = CausalLM(model=self.model, tokenizer=self.tokenizer, **settings)
        copy.name, copy.revision, copy.adapter = self.name, self.revision, self.adapter
        return copy

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
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

    def _prefix(self, prompt: str | None) -> list[int]:
        start = self.tokenizer.bos_token_id
        start = self.tokenizer.eos_token_id if start is None else start
        ids = [] if prompt is None else self.tokenizer(prompt, add_special_tokens=False).input_ids
        prefix = [*([] if start is None else [start]), *ids]
        if not prefix:
            raise InputError(
                "this tokenizer has neither a beginning- nor an end-of-sequence token, so a text "
                "has nothing to begin with: give a prompt."
            )
        return prefix

    @torch.inference_mode()
    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """Draw n texts, by one uniform a token, all taken from `rng` first."""
        uniforms = rng.random((n, self.max_tokens))
        tokens, lengths, log_q = with_less_memory(self, lambda rows: self._decode(uniforms, rows))
        items = Texts.from_rows(
            tokens.cpu().numpy().astype(np.int32), lengths.cpu().numpy(), self.tokenizer
        )
        return Batch(items, log_q.cpu().numpy())

    def _decode(self, uniforms: Array, rows: int) -> tuple[Tensor, Tensor, Tensor]:
        prompt, state = self._prompt()
        ring: RingCache | None = None

        def begin(rows: int) -> None:
            nonlocal ring
            ring = RingCache(prompt, rows, self.max_tokens - 1)

        def keep(into: Tensor, source: Tensor, left: int) -> None:
            assert ring is not None
            ring.keep(into, source, left)

        def step(tokens: Tensor, positions: Tensor, mask: Tensor, column: int) -> Tensor:
            assert ring is not None
            ring.column = column
            states = self._states(
                input_ids=tokens,
                position_ids=positions,
                attention_mask=mask,
                past_key_values=ring,
                use_cache=True,
            )
            return self.warp(self._head(states[:, -1]))

        decoder = Decoder(
            begin,
            step,
            keep,
            self.warp(self._head(state[None]))[0],
            len(self.prefix),
            self.end,
            self.max_tokens,
        )
        return decoder.run(torch.from_numpy(uniforms).to(self.device), rows)

    @torch.inference_mode()
    def log_prob(self, items: Items) -> Array:
        """Return the log-probability of each text, as it is drawn here."""
        texts = as_texts(items, self.tokenizer)
        return with_less_memory(
            self,
            lambda rows: score_texts(
                texts,
                self._hidden,
                self._head,
                self.warp,
                self.end,
                self.max_tokens,
                rows,
                self.model.config.vocab_size,
                self.device,
            ),
        )

    log_score = log_prob

    def _prompt(self) -> tuple[Any, Tensor]:
        """Return keys and values of what comes before a text, and the state after it; once."""
        if self._prompt_states is None:
            ids = torch.tensor([self.prefix], device=self.device)
            cache = DynamicCache(config=self.model.config)
            everything = torch.ones_like(ids)
            states = self._states(
                input_ids=ids, attention_mask=everything, past_key_values=cache, use_cache=True
            )
            self._prompt_states = cache, states[0, -1]
        return self._prompt_states

    def _hidden(self, ids: Tensor) -> Tensor:
        """Return the states before each token of the rows, and after the last."""
        prefix = torch.tensor(self.prefix, device=self.device).expand(len(ids), -1)
        whole = torch.cat([prefix, ids], dim=1)
        # The mask is causal and padding is on the right: no position looks at padding.
        everything = torch.ones_like(whole)
        states = self._states(input_ids=whole, attention_mask=everything, use_cache=False)
        return states[:, len(self.prefix) - 1 :]

    @cached_property
    @torch.inference_mode()
    def _plain(self) -> bool:
        """Whether logits are the output embeddings times the last states, as in most models.

        Some scale or cap them; those are asked for their logits as a whole.
        """
        ids = torch.tensor([self.prefix], device=self.device)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
        states = self.model.base_model(**inputs).last_hidden_state
        logits = self.model(**inputs).logits
        ours = self.model.get_output_embeddings()(states)
        return ours.shape == logits.shape and torch.allclose(ours, logits, atol=1e-3, rtol=1e-3)

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
        return f"CausalLM({self.name!r}, max_tokens={self.max_tokens}{prompt})"

    def encode(self, texts: Sequence[str]) -> Texts:
        """Return texts as this model's tokens."""
        return as_texts(list(texts), self.tokenizer)
