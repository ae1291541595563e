"""Hugging Face language models as proposals and bases. Importing this package imports torch."""

import quasir.text.determinism  # noqa: F401  before torch
from quasir.text.causal import CausalLM
from quasir.text.differentiable import DifferentiableText
from quasir.text.guided import Guided
from quasir.text.masked import MaskedLM
from quasir.text.round_trip import RoundTrip
from quasir.text.seq2seq import Seq2SeqLM
from quasir.text.texts import Text, Texts

__all__ = [
    "CausalLM",
    "DifferentiableText",
    "Guided",
    "MaskedLM",
    "RoundTrip",
    "Seq2SeqLM",
    "Text",
    "Texts",
]
