"""Loading models and tokenizers: built in, from a folder, or from a hub."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
)
from transformers.activations import NewGELUActivation

from quasir.core.files import shortened
from quasir.core.formatting import shown
from quasir.errors import InputError

__all__ = ["BUILT_IN", "load", "load_tokenizer", "named_or_given", "with_fused_gelu"]

MODELS = Path(__file__).parent / "models"
BUILT_IN = {
    f"quasir/{weights.parent.name}": weights.parent
    for weights in sorted(MODELS.glob("*/*.safetensors"))
}
"""Folders of the models and adapters that come with the package, by name."""

KINDS = {
    "causal": AutoModelForCausalLM,
    "masked": AutoModelForMaskedLM,
    "seq2seq": AutoModelForSeq2SeqLM,
}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def named_or_given(
    kind: str, name: str | None, model: Any, tokenizer: Any, **options: Any
) -> tuple[Any, Any]:
    """Return the given model and tokenizer, or load them by name; in evaluation mode.

    With the dropout of training mode, no two passes of a model would agree.
    """
    if (name is None) == (model is None) or (model is None) != (tokenizer is None):
        raise InputError("give the model's name, or a model and its tokenizer.")
    return (model.eval(), tokenizer) if name is None else load(name, kind, **options)


def load(
    name: str,
    kind: str,
    *,
    device: str | None = None,
    dtype: str = "float32",
    revision: str | None = None,
    adapter: str | None = None,
    trust_remote_code: bool = False,
) -> tuple[Any, Any]:
    """Load a model and its tokenizer, in evaluation mode.

    Weights are read from safetensors only. An adapter (LoRA) is merged into them.
    """
    if dtype not in DTYPES:
        raise InputError(f"dtype is {dtype!r}, but must be one of {sorted(DTYPES)}.")
    where, source = _place(name)
    options = {"revision": revision, "trust_remote_code": trust_remote_code}
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        model = KINDS[kind].from_pretrained(
            source, dtype=DTYPES[dtype], use_safetensors=True, **options
        )
    except (OSError, ValueError) as error:
        there = "it exists, but does not load" if os.path.isdir(where) else "it does not exist"
        raise InputError(
            f"the model {shown(name)} could not be loaded. Tried: the built-in models "
            f"({', '.join(BUILT_IN)}), a local folder of that name ({there}), and "
            f"the Hugging Face hub ({_first_line(error)}). A folder with config.json, the "
            "tokenizer's files and model.safetensors works offline."
        ) from error
    if adapter is not None:
        from peft import PeftModel

        try:
            model = PeftModel.from_pretrained(model, str(BUILT_IN.get(adapter, adapter)))
            model = model.merge_and_unload()
        except (OSError, ValueError) as error:
            raise InputError(
                f"the adapter {adapter!r} could not be put on {name!r}: "
                f"{str(error).splitlines()[0]}. It must be a folder or hub id that peft wrote for "
                "this model."
            ) from error
    return with_fused_gelu(model).to(device or default_device()).eval(), tokenizer


def load_tokenizer(name: str, revision: str | None = None) -> Any:
    """Load a model's tokenizer alone; no weights are read."""
    _, source = _place(name)
    try:
        return AutoTokenizer.from_pretrained(source, revision=revision)
    except (OSError, ValueError) as error:
        raise InputError(
            f"the tokenizer of {shown(name)} could not be loaded ({_first_line(error)})."
        ) from error


def _first_line(error: Exception) -> str:
    return shortened(next(iter(str(error).splitlines()), type(error).__name__))


def _place(name: str) -> tuple[Path, str]:
    """Return the local folder a name stands for, and the folder if it exists or else the name."""
    where = BUILT_IN.get(name, Path(name))
    return where, str(where) if os.path.isdir(where) else name


def with_fused_gelu(model: Any) -> Any:
    """Replace GPT-2's activation, eight operations in transformers, by torch's single one."""
    for module in model.modules():
        for name, child in module.named_children():
            if isinstance(child, NewGELUActivation):
                setattr(module, name, torch.nn.GELU(approximate="tanh"))
    return model


def default_device() -> str:
    """Return "cuda" if it is available, otherwise "cpu"."""
    return "cuda" if torch.cuda.is_available() else "cpu"
