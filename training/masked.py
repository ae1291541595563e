"""Train the built-in masked model `quasir/biographies-masked`, and export it for `transformers`.

An editor for `quasir.RWMH` over the texts of `quasir/biographies`: it predicts the token at a
masked position of a biography. It has the base's tokens under the same ids and one more, the mask,
and it starts from the base's weights. The options, the seed and the base determine a run. If it is
stopped, the same command resumes it from its last checkpoint, and the result is the same as
without the stop.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from command_line import add_options, command_of, read_options
from corpus import (
    END_OF_TEXT,
    HELD_OUT_SHARE,
    IGNORED_LABEL,
    batch_order,
    read_texts,
    split_held_out,
)
from from_causal import build_masked
from masked_card import card, guesses
from tokenizers import AddedToken, Tokenizer, processors
from torch.nn import functional
from trainer import Settings, check_exported, export_model, train, write_facts
from transformers import GPT2LMHeadModel, MegatronBertForMaskedLM

MASK = "<|mask|>"
SHORTEST = 8
"""Minimum number of tokens that a text is cut to."""
MEASURED_SHARE = 0.125
"""Share of tokens that are masked when the held-out loss is measured."""
MASKING_STREAM, MEASURING_STREAM = 1, 2
Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(Settings):
    """The options that, with data and base, determine a run; width and depth are the base's."""

    steps: int = 3000
    decay: int = 1200
    rate: float = 2e-3
    muon_rate: float = 1e-2
    # With this size the whole exported folder is below 6 MB.
    hidden: int = 608
    masked: float = 0.2


def masked_tokenizer(base: Path) -> Tokenizer:
    """Return the base's tokenizer with a mask token; it adds the end token on both sides of a text.

    The base's tokens keep their ids, so its texts need not be encoded again.
    """
    tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken(MASK, special=True, normalized=False)])
    end = tokenizer.token_to_id(END_OF_TEXT)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{END_OF_TEXT} $A {END_OF_TEXT}", special_tokens=[(END_OF_TEXT, end)]
    )
    return tokenizer


def encode_plain(tokenizer: Tokenizer, texts: Sequence[str], context: int) -> list[np.ndarray]:
    """Encode texts without special tokens, cut at `context` tokens."""
    encodings = tokenizer.encode_batch(
        [text[: 24 * context] for text in texts], add_special_tokens=False
    )
    return [np.array(e.ids[:context], dtype=np.int64) for e in encodings if len(e.ids)]


def shortened(text: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Cut half of the texts at a random length: edited texts have a limit unknown in training."""
    whole = rng.random() < 0.5 or len(text) <= SHORTEST
    return text if whole else text[: rng.integers(SHORTEST, len(text) + 1)]


def mask_texts(
    texts: Sequence[np.ndarray], shares: np.ndarray, mask: int, end: int, rng: np.random.Generator
) -> Batch:
    """Put the end token on both sides of each text and mask a share of it, at least one token.

    Returns
    -------
    inputs, attention, labels : Tensor
        Labels are ignored except at the masks.
    """
    width = max(map(len, texts)) + 2
    inputs = np.full((len(texts), width), end)
    attention = np.zeros_like(inputs)
    labels = np.full_like(inputs, IGNORED_LABEL)
    for row, (text, share) in enumerate(zip(texts, shares, strict=True)):
        inputs[row, 1 : len(text) + 1] = text
        attention[row, : len(text) + 2] = 1
        at = 1 + rng.permutation(len(text))[: max(1, round(share * len(text)))]
        labels[row, at] = inputs[row, at]
        inputs[row, at] = mask
    return torch.from_numpy(inputs), torch.from_numpy(attention), torch.from_numpy(labels)


def masked_losses(model: MegatronBertForMaskedLM, batch: Batch) -> torch.Tensor:
    """Return the loss of every masked token, in nats."""
    inputs, attention, labels = batch
    hidden = model.bert(inputs, attention_mask=attention).last_hidden_state
    kept = labels != IGNORED_LABEL
    logits = model.cls(hidden[kept])
    return functional.cross_entropy(logits.float(), labels[kept], reduction="none")


class MaskedTokens:
    """The task: predict the masked tokens of a text from the others; see `trainer.Task`."""

    def __init__(self, data: Path, base: Path, options: Options) -> None:
        self.options, self.base = options, base
        self.tokenizer = masked_tokenizer(base)
        self.end = self.tokenizer.token_to_id(END_OF_TEXT)
        self.mask = self.tokenizer.token_to_id(MASK)
        training, held_out = split_held_out(read_texts(data), HELD_OUT_SHARE)
        self.training = encode_plain(self.tokenizer, training, options.context)
        self.unseen = sorted(encode_plain(self.tokenizer, held_out, options.context), key=len)

    def build(self) -> MegatronBertForMaskedLM:
        """Return the model with the base's weights."""
        causal = GPT2LMHeadModel.from_pretrained(self.base, dtype=torch.float32)
        tokens, options = self.tokenizer.get_vocab_size(), self.options
        shape = causal.config.n_embd, causal.config.n_layer, causal.config.n_head
        if shape != (options.width, options.layers, options.heads):
            raise SystemExit(
                f"{self.base} has width, layers and heads {shape}: give the same options"
            )
        return build_masked(causal, tokens, options.hidden, options.dropout, options.seed)

    def is_block(self, name: str) -> bool:
        """Tell whether a parameter is inside a block."""
        return ".layer." in name

    def batches(self, first: int) -> Iterator[Batch]:
        """Yield batches; their texts, cuts and masks depend on (seed, number) only."""
        options, sizes = self.options, np.array([len(text) for text in self.training])
        order = batch_order(sizes, options.batch, options.seed, first)
        for number, members in enumerate(order, first):
            rng = np.random.default_rng([options.seed, MASKING_STREAM, number])
            texts = [shortened(self.training[i], rng) for i in members]
            # RWMH asks for one mask in a text, but many masks make training faster.
            shares = rng.uniform(0, 2 * options.masked, len(texts))
            yield mask_texts(texts, shares, self.mask, self.end, rng)

    def losses(self, model: MegatronBertForMaskedLM, batch: Batch) -> torch.Tensor:
        """Return the loss of every masked token."""
        return masked_losses(model, batch)

    def held_out(self, model: MegatronBertForMaskedLM) -> float:
        """Return the mean loss of a masked token on the held-out texts."""
        return float(self.held_out_losses(model).mean())

    @torch.inference_mode()
    def held_out_losses(
        self, model: MegatronBertForMaskedLM, share: float = MEASURED_SHARE
    ) -> torch.Tensor:
        """Return the loss of every masked token of the held-out texts; the masks never change."""
        was_training = model.training
        model.eval()
        rng, parts = np.random.default_rng([0, MEASURING_STREAM]), []
        for start in range(0, len(self.unseen), 128):
            texts = self.unseen[start : start + 128]
            shares = np.full(len(texts), share)
            batch = mask_texts(texts, shares, self.mask, self.end, rng)
            parts.append(masked_losses(model, batch).double())
        model.train(was_training)
        return torch.cat(parts)


def export(task: MaskedTokens, data: Path, run: Path, folder: Path) -> None:
    """Write the best weights of a run, in float16, as a folder that `transformers` loads."""
    saved = torch.load(run / "best.pt", weights_only=True)
    model = task.build()
    model.load_state_dict(saved["model"])
    settings = {
        "bos_token": END_OF_TEXT,
        "eos_token": END_OF_TEXT,
        "cls_token": END_OF_TEXT,
        "sep_token": END_OF_TEXT,
        "pad_token": END_OF_TEXT,
        "mask_token": MASK,
        "model_max_length": task.options.context + 2,
    }
    export_model(model, folder, task.tokenizer, settings)
    loaded = MegatronBertForMaskedLM.from_pretrained(folder, dtype=torch.float32)
    losses = task.held_out_losses(loaded)
    check_exported(float(losses.mean()), saved["loss"])
    # RWMH asks for a single mask, with all other tokens known.
    alone = task.held_out_losses(loaded, share=0.0)
    facts = write_facts(
        folder,
        saved,
        data=data.name,
        texts=len(task.training) + len(task.unseen),
        held_out_texts=len(task.unseen),
        held_out_masks=len(losses),
        held_out_loss_per_mask=float(losses.mean()),
        held_out_loss_of_a_single_mask=float(alone.mean()),
        parameters=loaded.num_parameters(),
        vocabulary=task.tokenizer.get_vocab_size(),
    )
    command = command_of(
        "masked.py",
        "biographies-masked",
        saved["options"],
        Options(),
        "--data biographies.txt.gz",
    )
    text = card(facts, MASK, MEASURED_SHARE, command, guesses(loaded, task.tokenizer, task.mask))
    (folder / "README.md").write_text(text, encoding="utf-8")


def main() -> None:
    """Train or resume training, then export on request."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  python training/masked.py --data biographies.txt.gz \\\n"
        "      --run runs/biographies-masked --export src/quasir/text/models/biographies-masked",
    )
    default = Path("src/quasir/text/models/biographies")
    parser.add_argument("--base", type=Path, default=default, help=f"default {default}")
    add_options(parser, Options)
    arguments = parser.parse_args()
    options = read_options(arguments, Options)
    arguments.run.mkdir(parents=True, exist_ok=True)
    task = MaskedTokens(arguments.data, arguments.base, options)
    train(task, options, arguments.run, arguments.every)
    if arguments.export:
        export(task, arguments.data, arguments.run, arguments.export)


if __name__ == "__main__":
    main()
