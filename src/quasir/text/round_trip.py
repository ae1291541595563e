"""Round-trip translation as a proposal of paraphrases (section 3.3 of the paper)."""

from __future__ import annotations

from typing import Any, Unpack

import torch

from quasir.core.arguments import check_count
from quasir.text.language_model import ModelOptions
from quasir.text.loading import load
from quasir.text.seq2seq import Seq2SeqLM


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
    >>> from transformers import T5Config, T5ForConditionalGeneration
    >>> tokenizer = qr.text.CausalLM("quasir/biographies").tokenizer
    >>> sizes = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2}
    >>> ids = {"decoder_start_token_id": 0, "eos_token_id": tokenizer.eos_token_id}
    >>> config = T5Config(vocab_size=len(tokenizer), **sizes, **ids)
    >>> model = T5ForConditionalGeneration(config)  # of random weights
    >>> pair = (model, tokenizer)
    >>> proposal = qr.text.RoundTrip(pair, pair, "A poet.", beams=2, top_k=5, max_tokens=4)
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
        source = translate(model, tokenizer, text, beams, max_tokens)
        super().__init__(back, source, max_tokens=max_tokens, **options)


@torch.inference_mode()
def translate(model: Any, tokenizer: Any, text: str, beams: int, max_tokens: int) -> str:
    """Return the best translation that beam search finds."""
    given = tokenizer([text], return_tensors="pt").to(model.device)
    found = model.generate(**given, num_beams=beams, do_sample=False, max_new_tokens=max_tokens)
    translation: str = tokenizer.decode(found[0], skip_special_tokens=True)
    return translation
