"""Encoder-decoder models, conditional on a source text, as proposals (section 3.3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from quasir.core.arguments import check_count
from quasir.core.types import Array, Batch, Items
from quasir.errors import InputError
from quasir.text.batch_halving import BatchHalving
from quasir.text.decoding import Decoder, moved
from quasir.text.loading import named_or_given
from quasir.text.log_prob import LOGITS_AT_ONCE, score_texts
from quasir.text.texts import Texts
from quasir.text.tokenizers import as_texts
from quasir.text.warp import Warp

__all__ = ["Seq2SeqLM"]

ROWS = 256


class Seq2SeqLM(BatchHalving):
    """An encoder-decoder model given its source: `sample` draws targets, `log_prob` scores them.

    The parameters are those of `CausalLM`, with a `source` text instead of a prompt. The source
    is encoded once. Draws are decoded in waves: with the relative positions of some decoders (T5)
    a new draw cannot take the row of an ended one.

    Parameters
    ----------
    name : str
        A folder or a hub id.
    source : str
        The text to translate, summarise or rewrite.
    max_tokens, temperature, top_k, top_p, device, dtype, revision, adapter, trust_remote_code
        See `CausalLM`.
    model, tokenizer
        A loaded transformers model and its tokenizer, instead of `name`.

    Examples
    --------
    >>> import quasir as qr
    >>> from transformers import T5Config, T5ForConditionalGeneration
    >>> tokenizer = qr.text.CausalLM("quasir/biographies").tokenizer
    >>> sizes = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2}
    >>> ids = {"decoder_start_token_id": 0, "eos_token_id": tokenizer.eos_token_id}
    >>> config = T5Config(vocab_size=len(tokenizer), **sizes, **ids)
    >>> model = T5ForConditionalGeneration(config)  # of random weights
    >>> lm = qr.text.Seq2SeqLM(source="A poet.", model=model, tokenizer=tokenizer, max_tokens=4)
    >>> items, log_q = lm.sample(3, np.random.default_rng(0))
    >>> bool(np.allclose(lm.log_prob(items), log_q, atol=1e-3))
    True
    """

    prefix_stable = True

    def __init__(
        self,
        name: str | None = None,
        source: str = "",
        *,
        max_tokens: int = 64,
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
        if not source:
            raise InputError("give the source text that the model is conditional on.")
        self.warp = Warp(temperature, top_k, top_p)
        self.model, self.tokenizer = named_or_given(
            "seq2seq",
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
        self.source, self.max_tokens = source, max_tokens
        self._rows = ROWS
        start = self.model.config.decoder_start_token_id
        start = self.tokenizer.bos_token_id if start is None else start
        if start is None:
            raise InputError("this model's configuration has no decoder_start_token_id.")
        self._start = int(start)
        self._source: Any = None
        self._refuse_too_long()

    def _refuse_too_long(self) -> None:
        """Compare the source, and texts behind the start token, with the model's positions."""
        limit = getattr(self.model.config, "max_position_embeddings", None)
        if limit is None:
            return
        if self.max_tokens >= limit:
            raise InputError(
                f"max_tokens = {self.max_tokens} is more than the {limit} positions of this model "
                f"hold: set max_tokens to at most {limit - 1}."
            )
        length = len(self.tokenizer(self.source).input_ids)
        if length > limit:
            raise InputError(
                f"the source has {length} tokens, but this model has {limit} positions: give a "
                "shorter source."
            )

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

    @property
    def vocabulary(self) -> int:
        """Number of tokens in the decoder's vocabulary."""
        return int(self.model.get_output_embeddings().weight.shape[0])

    def given(self, source: str) -> Seq2SeqLM:
        """Return the model for another source; the weights are shared."""
        copy = Seq2SeqLM(
            model=self.model,
            tokenizer=self.tokenizer,
            source=source,
            max_tokens=self.max_tokens,
            temperature=self.warp.temperature,
            top_k=self.warp.top_k,
            top_p=self.warp.top_p,
        )
        copy.name, copy.revision, copy.adapter = self.name, self.revision, self.adapter
        return copy

    @torch.inference_mode()
    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """Draw n texts. All uniforms, one a token, are taken from `rng` before decoding starts."""
        uniforms = rng.random((n, self.max_tokens))
        tokens, lengths, log_q = self._with_less_memory(lambda rows: self._decode(uniforms, rows))
        ids = tokens.cpu().numpy().astype(np.int32)
        return Batch(
            Texts.from_rows(ids, lengths.cpu().numpy(), self.tokenizer), log_q.cpu().numpy()
        )

    def _decode(self, uniforms: Array, rows: int) -> tuple[Tensor, Tensor, Tensor]:
        state: dict[str, Any] = {}

        def begin(prompts: Tensor) -> None:
            rows = len(prompts)
            # The start token precedes the first token, so its keys and values come first.
            state["cache"] = EncoderDecoderCache(DynamicCache(), DynamicCache())
            state["rows"] = rows
            self._ask(torch.full((rows, 1), self._start, device=self.device), state)

        def keep(into: Tensor, source: Tensor, left: int) -> None:
            rows = moved(torch.arange(state["rows"], device=self.device), into, source, left)
            state["cache"].batch_select_indices(rows)
            state["rows"] = left

        def step(tokens: Tensor, positions: Tensor, mask: Tensor, column: int) -> Tensor:
            return self.warp(self._ask(tokens, state)[:, -1])

        one = {"cache": None, "rows": 1}
        first = self.warp(self._ask(torch.tensor([[self._start]], device=self.device), one)[:, -1])
        decoder = Decoder(
            begin,
            step,
            keep,
            first=first,
            lengths=torch.ones(1, dtype=torch.int64, device=self.device),
            end=self.end,
            limit=self.max_tokens,
            refill=False,
        )
        return decoder.run(torch.from_numpy(uniforms).to(self.device), rows)

    @torch.inference_mode()
    def log_prob(self, items: Items) -> Array:
        """Return the log-probability of each text given the source."""
        texts = as_texts(items, self.tokenizer)
        size = self.vocabulary * (int(texts.lengths.max(initial=0)) + 1)
        most = max(1, 4 * LOGITS_AT_ONCE // size)
        return self._with_less_memory(
            lambda rows: score_texts(
                texts,
                self._logits,
                lambda logits: logits,
                warp=self.warp,
                end=self.end,
                limit=self.max_tokens,
                rows=min(rows, most),
                vocabulary=self.vocabulary,
                device=self.device,
            )
        )

    log_score = log_prob
    log_z = 0.0

    def _logits(self, ids: Tensor) -> Tensor:
        """Return the logits that predict each token of the rows, and those after the last."""
        start = torch.full((len(ids), 1), self._start, device=self.device)
        return self._ask(torch.cat([start, ids], dim=1), {"cache": None, "rows": len(ids)})

    def _ask(self, tokens: Tensor, state: dict[str, Any]) -> Tensor:
        encoded, mask = self._encoded()
        rows = state["rows"]
        output = self.model(
            encoder_outputs=(encoded.expand(rows, -1, -1),),
            attention_mask=mask.expand(rows, -1),
            decoder_input_ids=tokens,
            past_key_values=state["cache"],
            use_cache=state["cache"] is not None,
        )
        logits: Tensor = output.logits
        return logits

    def _encoded(self) -> tuple[Tensor, Tensor]:
        """Return the source's states and mask; they are computed once."""
        if self._source is None:
            given = self.tokenizer([self.source], return_tensors="pt").to(self.device)
            states = self.model.get_encoder()(
                input_ids=given.input_ids, attention_mask=given.attention_mask
            ).last_hidden_state
            self._source = states, given.attention_mask
        encoded: tuple[Tensor, Tensor] = self._source
        return encoded

    def __repr__(self) -> str:
        return f"Seq2SeqLM({self.name!r}, source={self.source!r}, max_tokens={self.max_tokens})"
