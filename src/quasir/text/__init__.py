"""Hugging Face language models as proposals and bases. Importing this package imports torch."""

import os

# Before torch is imported: on most CPUs it multiplies matrices with Intel MKL, whose order of
# summation depends on the number of threads, and sometimes the last bit decides which token is
# drawn. In strict mode the order is fixed, so one process and several give the same draws. With
# other libraries, or on another kind of CPU, a draw may still differ.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")

from quasir.text.causal import CausalLM
from quasir.text.choices import Choices, choose
from quasir.text.differentiable import DifferentiableText
from quasir.text.guided import Guided
from quasir.text.masked import MaskedLM
from quasir.text.search import propose
from quasir.text.seq2seq import RoundTrip, Seq2SeqLM
from quasir.text.served import Served
from quasir.text.texts import Text, Texts

__all__ = [
    "CausalLM",
    "Choices",
    "DifferentiableText",
    "Guided",
    "MaskedLM",
    "RoundTrip",
    "Seq2SeqLM",
    "Served",
    "Text",
    "Texts",
    "choose",
    "propose",
]
