"""Causal models (GPT-2): building one, its losses, and the task of predicting the next token."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from corpus import END_OF_TEXT, IGNORED_LABEL, batch_order, encode, pad
from tokenizers import Tokenizer
from torch.nn import functional
from trainer import Settings, export_model
from transformers import GPT2Config, GPT2LMHeadModel

__all__ = [
    "Batch",
    "CausalOptions",
    "NextToken",
    "build_model",
    "export_causal",
    "held_out_loss",
    "text_losses",
    "token_losses",
]

Batch = tuple[torch.Tensor, torch.Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CausalOptions(Settings):
    """The options that, with the data, determine the run of a causal model."""

    vocabulary: int = 6144


def build_model(options: CausalOptions) -> GPT2LMHeadModel:
    """Build the model with fresh weights; the input and output embeddings are one matrix."""
    torch.manual_seed(options.seed)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=options.vocabulary,
            n_positions=options.context,
            n_embd=options.width,
            n_layer=options.layers,
            n_head=options.heads,
            # One fused operation; GPT-2's own "gelu_new" is the same function in several.
            activation_function="gelu_pytorch_tanh",
            embd_pdrop=options.dropout,
            resid_pdrop=options.dropout,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=0,
            pad_token_id=0,
        )
    )


def token_losses(
    model: GPT2LMHeadModel, inputs: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """Return the loss of every label that is not ignored, in order, in nats."""
    hidden = model.transformer(inputs, use_cache=False).last_hidden_state
    # Logits are by far the largest array, so padding gets none.
    kept = labels != IGNORED_LABEL
    logits = functional.linear(hidden[kept], model.lm_head.weight)
    return functional.cross_entropy(logits.float(), labels[kept], reduction="none")


@torch.inference_mode()
def text_losses(
    model: GPT2LMHeadModel, sequences: Sequence[np.ndarray], end: int, batch: int = 128
) -> tuple[np.ndarray, np.ndarray]:
    """Return the loss of every text in nats, with dropout off, and its number of labels."""
    was_training = model.training
    model.eval()
    lengths = np.array([len(sequence) - 1 for sequence in sequences])
    sums = np.zeros(len(sequences))
    in_order = np.argsort(lengths, kind="stable")
    for start in range(0, len(in_order), batch):
        members = in_order[start : start + batch]
        losses = token_losses(model, *pad([sequences[i] for i in members], end)).double().numpy()
        sums[members] = np.add.reduceat(losses, np.cumsum(lengths[members]) - lengths[members])
    model.train(was_training)
    return sums, lengths


def held_out_loss(
    model: GPT2LMHeadModel, sequences: Sequence[np.ndarray], end: int
) -> dict[str, float]:
    """Return the mean loss per token and per text, in nats, with dropout off."""
    sums, lengths = text_losses(model, sequences, end)
    total, tokens = float(sums.sum()), int(lengths.sum())
    return {"per_token": total / tokens, "per_text": total / len(sequences), "tokens": tokens}


class NextToken:
    """The task: predict each token, and the end, from the tokens before; see `trainer.Task`."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        training: Sequence[str],
        unseen: Sequence[str],
        options: CausalOptions,
    ) -> None:
        self.tokenizer, self.options = tokenizer, options
        self.end = tokenizer.token_to_id(END_OF_TEXT)
        self.training, self.unseen = self.encoded(training), self.encoded(unseen)

    def encoded(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return texts as token ids, cut at the context."""
        return encode(self.tokenizer, texts, self.options.context)

    def build(self) -> GPT2LMHeadModel:
        """Return a model with fresh weights."""
        return build_model(self.options)

    def is_block(self, name: str) -> bool:
        """Tell whether a parameter is inside a block."""
        return ".h." in name

    def batches(self, first: int) -> Iterator[Batch]:
        """Yield the batches of the training texts."""
        yield from self.batches_of(self.training, first)

    def batches_of(self, texts: list[np.ndarray], first: int) -> Iterator[Batch]:
        """Yield the batches of some texts."""
        sizes = np.array([len(text) for text in texts])
        for members in batch_order(sizes, self.options.batch, self.options.seed, first):
            yield pad([texts[i] for i in members], self.end)

    def losses(self, model: GPT2LMHeadModel, batch: Batch) -> torch.Tensor:
        """Return the loss of every token."""
        return token_losses(model, *batch)

    def held_out(self, model: GPT2LMHeadModel) -> float:
        """Return the mean loss per token on the held-out texts."""
        return held_out_loss(model, self.unseen, self.end)["per_token"]


def export_causal(
    saved: dict, folder: Path, tokenizer: Tokenizer, options: CausalOptions
) -> GPT2LMHeadModel:
    """Write the weights of a run in float16, and return the model as `transformers` loads it."""
    model = build_model(options)
    model.load_state_dict(saved["model"])
    settings = {
        "bos_token": END_OF_TEXT,
        "eos_token": END_OF_TEXT,
        "pad_token": END_OF_TEXT,
        "model_max_length": options.context,
    }
    export_model(model, folder, tokenizer, settings)
    return GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float32)
