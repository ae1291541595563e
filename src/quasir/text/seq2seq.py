"""Encoder-decoder models, conditional on a source text, and round trips (section 3.3)."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from quasir.core.arguments import check_count
from quasir.core.types import Array, Batch
from quasir.errors import InputError
from quasir.text.decoding import Decoder, Stepper, move_rows
from quasir.text.language_model import LOGITS_AT_ONCE, ModelOptions, NetworkLM, score_texts
from quasir.text.loading import load
from quasir.text.texts import Texts


class Seq2SeqLM(NetworkLM):
    """An encoder-decoder model given its source: `sample` draws targets, `log_prob` scores them.

    The source is encoded once. Draws are decoded in waves: with the relative positions of some
    decoders (T5) a new draw cannot take the row of an ended one.

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
    >>> import numpy as np
    >>> import quasir as qr
    >>> lm = qr.text.Seq2SeqLM("quasir/paraphraser", "Why is the sky blue?", max_tokens=8)
    >>> items, log_q = lm.sample(3, np.random.default_rng(0))
    >>> bool(np.allclose(lm.log_prob(items), log_q, atol=1e-3))
    True
    """

    kind = "seq2seq"

    def __init__(
        self,
        name: str | None = None,
        source: str = "",
        *,
        max_tokens: int = 64,
        **options: Unpack[ModelOptions],
    ) -> None:
        if not source:
            raise InputError("give the source text that the model is conditional on.")
        super().__init__(name, max_tokens=max_tokens, **options)
        self.source = source
        start = self.model.config.decoder_start_token_id
        start = self.tokenizer.bos_token_id if start is None else start
        if start is None:
            raise InputError("this model's configuration has no decoder_start_token_id.")
        self._start = int(start)
        limit, length = self.positions, len(self.tokenizer(source).input_ids)
        if limit is not None and max_tokens >= limit:  # the start token has one, too
            raise InputError(
                f"max_tokens = {max_tokens} is more than the {limit} positions of this model "
                f"hold: set max_tokens to at most {limit - 1}."
            )
        if limit is not None and length > limit:
            raise InputError(f"the source has {length} tokens, but this model reads {limit}.")

    def given(self, source: str) -> Seq2SeqLM:
        """Return the model for another source; the weights are shared."""
        return self._variant(Seq2SeqLM, source=source)

    @torch.inference_mode()
    def _draw(self, uniforms: Array) -> Batch:
        def attempt(rows: int) -> tuple[Tensor, Tensor, Tensor]:
            decoder = Decoder(_Seq2SeqStepper(self), self.end, self.max_tokens)
            return decoder.run(torch.from_numpy(uniforms).to(self.device), rows)

        tokens, lengths, log_q = (x.cpu().numpy() for x in self._with_less_memory(attempt))
        return Batch(Texts.from_rows(tokens.astype(np.int32), lengths, self.tokenizer), log_q)

    @torch.inference_mode()
    def _score(self, texts: Texts) -> Array:
        # The network gives logits, not states: those of few texts fit in memory.
        size = self.vocabulary_size * (int(texts.lengths.max(initial=0)) + 1)
        most = max(1, 4 * LOGITS_AT_ONCE // size)
        return self._with_less_memory(lambda rows: score_texts(self, texts, min(rows, most)))

    def _hidden(self, ids: Tensor) -> Tensor:
        start = torch.full((len(ids), 1), self._start, device=self.device)
        return self._logits(torch.cat([start, ids], dim=1), None)

    def _head(self, states: Tensor) -> Tensor:
        return states

    def _logits(self, tokens: Tensor, cache: Any) -> Tensor:
        encoded, mask = self._encoded
        logits: Tensor = self.model(
            encoder_outputs=(encoded.expand(len(tokens), -1, -1),),
            attention_mask=mask.expand(len(tokens), -1),
            decoder_input_ids=tokens,
            past_key_values=cache,
            use_cache=cache is not None,
        ).logits
        return logits

    @cached_property
    def _encoded(self) -> tuple[Tensor, Tensor]:
        """The source's states and mask."""
        given = self.tokenizer([self.source], return_tensors="pt").to(self.device)
        states = self.model.get_encoder()(
            input_ids=given.input_ids, attention_mask=given.attention_mask
        ).last_hidden_state
        return states, given.attention_mask

    def __repr__(self) -> str:
        return f"Seq2SeqLM({self.name!r}, source={self.source!r}, max_tokens={self.max_tokens})"


class _Seq2SeqStepper(Stepper):
    refill = False

    def __init__(self, lm: Seq2SeqLM) -> None:
        self.lm = lm
        self.first = lm.warp(lm._logits(self._starts(1), None)[:, -1])
        self.lengths = torch.ones(1, dtype=torch.int64, device=lm.device)

    def _starts(self, rows: int) -> Tensor:
        return torch.full((rows, 1), self.lm._start, device=self.lm.device)

    def begin(self, prompt: Tensor) -> None:
        self.rows = len(prompt)
        # The start token precedes the first token, so its keys and values come first.
        self.cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        self.lm._logits(self._starts(self.rows), self.cache)

    def step(self, tokens: Tensor, positions: Tensor, mask: Tensor, column: int) -> Tensor:
        return self.lm.warp(self.lm._logits(tokens, self.cache)[:, -1])

    def keep(self, into: Tensor, source: Tensor, left: int) -> None:
        every = torch.arange(self.rows, device=self.lm.device)
        self.cache.batch_select_indices(move_rows(every, into, source, left))
        self.rows = left


class RoundTrip(Seq2SeqLM):
    """Draw paraphrases: translate a text by beam search, then draw translations back.

    Parameters
    ----------
    there, back : str, or pair of a model and its tokenizer
        The models for the two directions: folders or hub ids, such as ``facebook/wmt19-en-de``
        and ``facebook/wmt19-de-en``.
    text : str
        The text to paraphrase.
    beams : int
        Beams of the first translation (the paper: 5).
    top_k : int or None
        Top-k of the draws back (the paper: 30).
    max_tokens, temperature, top_p, device, dtype
        See `CausalLM`; they apply to the draws back.

    Attributes
    ----------
    source : str
        The translation that the draws are conditional on.

    Notes
    -----
    Top-k removes texts from the support. These draws cannot show how much mass p has on the
    removed texts, and the distance to p never falls below that mass.

    Examples
    --------
    >>> import quasir as qr
    >>> model = "quasir/paraphraser"
    >>> proposal = qr.text.RoundTrip(model, model, "Why is the sky blue?", beams=2, max_tokens=8)
    >>> proposal.truncates
    True
    """

    def __init__(
        self,
        there: Any,
        back: Any,
        text: str,
        *,
        beams: int = 5,
        max_tokens: int = 64,
        **options: Unpack[ModelOptions],
    ) -> None:
        check_count("beams", beams)
        self.text, self.beams = text, beams
        options = {"top_k": 30, **options}
        placed: Any = {name: options[name] for name in ("device", "dtype") if name in options}
        model, tokenizer = there if not isinstance(there, str) else load(there, "seq2seq", **placed)
        if not isinstance(back, str):
            options["model"], options["tokenizer"] = back
            back = None
        given = tokenizer([text], return_tensors="pt").to(model.device)
        with torch.inference_mode():
            found = model.generate(
                **given, num_beams=beams, do_sample=False, max_new_tokens=max_tokens
            )
        source = tokenizer.decode(found[0], skip_special_tokens=True)
        super().__init__(back, source, max_tokens=max_tokens, **options)
