"""Train the built-in model `quasir/biographies`, and export it for `transformers`.

A GPT-2 of about 3 million parameters learns the openings of biographies. The options and the seed
determine a run. If it is stopped, the same command resumes it from its last checkpoint, and the
result is the same as without the stop.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from command_line import add_options, read_options
from corpus import (
    END_OF_TEXT,
    HELD_OUT_SHARE,
    IGNORED_LABEL,
    batch_order,
    encode,
    pad,
    read_texts,
    split_held_out,
    train_tokenizer,
    without_openings,
)
from tokenizers import Tokenizer
from torch.nn import functional
from trainer import Settings, check_exported, export_model, train, write_facts
from transformers import GPT2Config, GPT2LMHeadModel

Batch = tuple[torch.Tensor, torch.Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(Settings):
    """The options that, with the data, determine a run."""

    general_steps: int = 0
    vocabulary: int = 6144


def build_model(options: Options) -> GPT2LMHeadModel:
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
def held_out_loss(
    model: GPT2LMHeadModel, sequences: list[np.ndarray], end: int, batch: int = 128
) -> dict[str, float]:
    """Return the mean loss per token and per text, in nats, with dropout off."""
    was_training = model.training
    model.eval()
    total, tokens = 0.0, 0
    in_order = sorted(sequences, key=len)
    for start in range(0, len(in_order), batch):
        losses = token_losses(model, *pad(in_order[start : start + batch], end))
        total, tokens = total + losses.double().sum().item(), tokens + len(losses)
    model.train(was_training)
    return {"per_token": total / tokens, "per_text": total / len(sequences), "tokens": tokens}


def prepare(
    data: Path, general: Path | None, run: Path, options: Options
) -> tuple[Tokenizer, list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Return the tokenizer, and the training, general and held-out texts as token ids."""
    training, held_out = split_held_out(read_texts(data), HELD_OUT_SHARE)
    path = run / "tokenizer.json"
    if not path.exists():
        train_tokenizer(training, options.vocabulary).save(str(path))
    tokenizer = Tokenizer.from_file(str(path))
    openings = without_openings(read_texts(general), held_out) if general else []
    context = options.context
    return (
        tokenizer,
        encode(tokenizer, training, context),
        encode(tokenizer, openings, context),
        encode(tokenizer, held_out, context),
    )


class NextToken:
    """The task: predict each token, and the end, from the tokens before; see `trainer.Task`."""

    def __init__(self, data: Path, general: Path | None, run: Path, options: Options) -> None:
        self.options = options
        tokenizer, self.training, self.openings, self.unseen = prepare(data, general, run, options)
        self.end = tokenizer.token_to_id(END_OF_TEXT)

    def build(self) -> GPT2LMHeadModel:
        """Return a model with fresh weights."""
        return build_model(self.options)

    def is_block(self, name: str) -> bool:
        """Tell whether a parameter is inside a block."""
        return ".h." in name

    def batches(self, first: int) -> Iterator[Batch]:
        """Yield the batches of the general steps, if any, and then those of the biographies."""
        general_steps = self.options.general_steps if self.openings else 0
        if first < general_steps:
            yield from islice(self._batches(self.openings, first), general_steps - first)
        yield from self._batches(self.training, max(0, first - general_steps))

    def _batches(self, texts: list[np.ndarray], first: int) -> Iterator[Batch]:
        sizes = np.array([len(text) for text in texts])
        for members in batch_order(sizes, self.options.batch, self.options.seed, first):
            yield pad([texts[i] for i in members], self.end)

    def losses(self, model: GPT2LMHeadModel, batch: Batch) -> torch.Tensor:
        """Return the loss of every token."""
        return token_losses(model, *batch)

    def held_out(self, model: GPT2LMHeadModel) -> float:
        """Return the mean loss per token on the held-out texts."""
        return held_out_loss(model, self.unseen, self.end)["per_token"]


def export(data: Path, run: Path, folder: Path) -> None:
    """Write the best weights of a run, in float16, as a folder that `transformers` loads."""
    saved = torch.load(run / "best.pt", weights_only=True)
    options = Options(**saved["options"])
    model = build_model(options)
    model.load_state_dict(saved["model"])
    tokenizer, _, _, held_out = prepare(data, None, run, options)
    settings = {
        "bos_token": END_OF_TEXT,
        "eos_token": END_OF_TEXT,
        "pad_token": END_OF_TEXT,
        "model_max_length": options.context,
    }
    export_model(model, folder, tokenizer, settings)
    loaded = GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float32)
    loss = held_out_loss(loaded, held_out, tokenizer.token_to_id(END_OF_TEXT))
    check_exported(loss["per_token"], saved["loss"])
    write_facts(
        folder,
        saved,
        data=data.name,
        held_out_texts=len(held_out),
        held_out_tokens=loss["tokens"],
        held_out_loss_per_token=loss["per_token"],
        held_out_loss_per_text=loss["per_text"],
        parameters=loaded.num_parameters(),
    )


def main() -> None:
    """Train or resume training, then export on request."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  python training/biographies.py --data biographies.txt.gz "
        "--run runs/biographies \\\n      --export src/quasir/text/models/biographies",
    )
    parser.add_argument(
        "--general", type=Path, help="texts for --general-steps, one per line, gzipped"
    )
    add_options(parser, Options)
    arguments = parser.parse_args()
    if arguments.general_steps and not arguments.general:
        raise SystemExit("--general-steps needs the texts: give --general as well")
    options = read_options(arguments, Options)
    arguments.run.mkdir(parents=True, exist_ok=True)
    task = NextToken(arguments.data, arguments.general, arguments.run, options)
    train(task, options, arguments.run, arguments.every)
    if arguments.export:
        export(arguments.data, arguments.run, arguments.export)


if __name__ == "__main__":
    main()
