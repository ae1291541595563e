"""Train the built-in sequence-to-sequence model `quasir/paraphraser`, and export it.

A small encoder-decoder rewrites a question as another of the same meaning: the proposal of the
paraphrases (section 3.3). It has the tokens of `quasir/questions` under the same ids, and begins
with their embeddings. It first learns to restore questions from which tokens were lost, and then
pairs. It has absolute positions (mBART), with which it soon learns to copy; a T5, whose positions
are relative, was tried and did not. The options, the seed and `quasir/questions` determine a run.
If it is stopped, the same command resumes it from its last checkpoint, and the result is the same
as without the stop.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from command_line import add_options, read_options
from corpus import END_OF_TEXT, IGNORED_LABEL, batch_order, encode, pad
from paraphraser_card import export_and_judge
from splitting import Pair, split_questions
from tokenizers import Tokenizer
from torch.nn import functional
from trainer import Settings, train
from transformers import GPT2LMHeadModel, MBartConfig, MBartForConditionalGeneration

NOISE_STREAM = 4
LOST = 0.15
"""Share of the tokens that are lost in denoising."""
REACH = 2.0
"""Tokens move by less than about this many places in denoising."""
POSITIONS, LONGEST = 64, 1000.0
"""Positions of the model, and the longest wave that they begin as, over 2 pi."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(Settings):
    """The options that, with data and tokenizer, determine a run."""

    denoising: int = 500
    steps: int = 2000
    decay: int = 800
    batch: int = 96
    layers: int = 2
    hidden: int = 512
    context: int = 40
    precision: str = "bfloat16"


def waves(places: int, width: int) -> torch.Tensor:
    """Return sines and cosines of the places, from short waves to long ones."""
    angles = torch.arange(places)[:, None] / LONGEST ** (torch.arange(width // 2) * 2 / width)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class Batch(NamedTuple):
    """Sources with their attention mask, and what the decoder reads and must predict."""

    sources: torch.Tensor
    attention: torch.Tensor
    inputs: torch.Tensor
    labels: torch.Tensor


Texts = Sequence[np.ndarray]


def batch_of(sources: Texts, targets: Texts, end: int) -> Batch:
    """Stack encoded texts; a source loses the end tokens at its sides."""
    inner = [text[1:-1] if text[-1] == end else text[1:] for text in sources]
    width = max(1, *(len(text) for text in inner))
    ids = np.full((len(inner), width), end)
    attention = np.zeros_like(ids)
    for row, text in enumerate(inner):
        ids[row, : len(text)] = text
        attention[row, : max(1, len(text))] = 1
    return Batch(torch.from_numpy(ids), torch.from_numpy(attention), *pad(targets, end))


def with_noise(text: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Lose some tokens of an encoded text and move others; those at its sides stay."""
    inner = text[1:-1]
    inner = inner[np.argsort(np.arange(len(inner)) + REACH * rng.random(len(inner)))]
    return np.concatenate([text[:1], inner[rng.random(len(inner)) >= LOST], text[-1:]])


def target_losses(model: MBartForConditionalGeneration, batch: Batch) -> torch.Tensor:
    """Return the loss of every token of the targets and of their ends, in nats."""
    both = model.model
    states = both.encoder(batch.sources, attention_mask=batch.attention).last_hidden_state
    hidden = both.decoder(
        batch.inputs,
        encoder_hidden_states=states,
        encoder_attention_mask=batch.attention,
        use_cache=False,
    ).last_hidden_state
    kept = batch.labels != IGNORED_LABEL
    logits = functional.linear(hidden[kept], model.lm_head.weight)
    return functional.cross_entropy(logits.float(), batch.labels[kept], reduction="none")


class Rewriting:
    """The task: predict a question from another of the same meaning; see `trainer.Task`."""

    def __init__(self, questions: Path, pairs: Path, base: Path, options: Options) -> None:
        self.options = options
        self.tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
        model = GPT2LMHeadModel.from_pretrained(base, dtype=torch.float32)
        self.embeddings = model.transformer.wte.weight.detach()
        self.end = self.tokenizer.token_to_id(END_OF_TEXT)
        self.split = split_questions(questions, pairs)
        self.alone = self.encoded(self.split.questions.training)
        self.training = self.both_ways(self.split.pairs.training)
        self.unseen = self.both_ways(self.split.pairs.choice)

    def encoded(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return texts as token ids between end tokens, cut at the context."""
        return encode(self.tokenizer, texts, self.options.context)

    def both_ways(self, pairs: Sequence[Pair]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return sources and targets: the pairs of the same meaning, from each side."""
        same = [pair for pair in pairs if pair.same]
        first, second = (self.encoded([pair[side] for pair in same]) for side in (0, 1))
        return list(zip(first + second, second + first, strict=True))

    def build(self) -> MBartForConditionalGeneration:
        """Return a model with fresh weights, but for the embeddings, and waves for positions."""
        options = self.options
        torch.manual_seed(options.seed)
        sizes = {
            f"{side}_{what}": size
            for side in ("encoder", "decoder")
            for what, size in (
                ("layers", options.layers),
                ("attention_heads", options.heads),
                ("ffn_dim", options.hidden),
            )
        }
        model = MBartForConditionalGeneration(
            MBartConfig(
                vocab_size=self.tokenizer.get_vocab_size(),
                d_model=options.width,
                max_position_embeddings=POSITIONS,
                dropout=options.dropout,
                bos_token_id=self.end,
                eos_token_id=self.end,
                pad_token_id=self.end,
                decoder_start_token_id=self.end,
                forced_eos_token_id=None,
                **sizes,
            )
        )
        with torch.no_grad():
            model.model.shared.weight.copy_(self.embeddings)
            for half in (model.model.encoder, model.model.decoder):
                places = half.embed_positions.weight
                places.copy_(waves(*places.shape) * self.embeddings.std())
        return model

    def is_block(self, name: str) -> bool:
        """Tell whether a parameter is a matrix of a block."""
        return ".layers." in name

    def batches(self, first: int) -> Iterator[Batch]:
        """Yield the batches of denoising, and then those of the pairs."""
        denoising = self.options.denoising
        if first < denoising:
            yield from islice(self._denoising(first), denoising - first)
        first = max(0, first - denoising)
        sizes = np.array([len(source) + len(target) for source, target in self.training])
        for members in batch_order(sizes, self.options.batch, self.options.seed, first):
            yield batch_of(*zip(*(self.training[i] for i in members), strict=True), self.end)

    def _denoising(self, first: int) -> Iterator[Batch]:
        sizes, options = np.array([len(text) for text in self.alone]), self.options
        order = batch_order(sizes, options.batch, options.seed, first)
        for number, members in enumerate(order, first):
            rng = np.random.default_rng([options.seed, NOISE_STREAM, number])
            texts = [self.alone[i] for i in members]
            yield batch_of([with_noise(text, rng) for text in texts], texts, self.end)

    def losses(self, model: MBartForConditionalGeneration, batch: Batch) -> torch.Tensor:
        """Return the loss of every token of the targets."""
        return target_losses(model, batch)

    def held_out(self, model: MBartForConditionalGeneration) -> float:
        """Return the mean loss per token on the pairs that choose the step."""
        sums, lengths = self.pair_losses(model, self.unseen)
        return float(sums.sum() / lengths.sum())

    @torch.inference_mode()
    def pair_losses(
        self, model: MBartForConditionalGeneration, pairs: Sequence[tuple[np.ndarray, np.ndarray]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the loss of every target, with dropout off, and its number of labels."""
        was_training = model.training
        model.eval()
        lengths = np.array([len(target) - 1 for _, target in pairs])
        sums, order = np.zeros(len(pairs)), np.argsort(lengths, kind="stable")
        for start in range(0, len(order), 128):
            members = order[start : start + 128]
            batch = batch_of(*zip(*(pairs[i] for i in members), strict=True), self.end)
            losses = target_losses(model, batch).double().numpy()
            starts = np.cumsum(lengths[members]) - lengths[members]
            sums[members] = np.add.reduceat(losses, starts)
        model.train(was_training)
        return sums, lengths


def main() -> None:
    """Train or resume training, then export on request."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  python training/paraphraser.py --data questions.txt.gz "
        "--pairs question_pairs.tsv.gz \\\n      --run runs/paraphraser "
        "--export src/quasir/text/models/paraphraser",
    )
    parser.add_argument("--pairs", type=Path, required=True, help="pairs of questions, gzipped")
    default = Path("src/quasir/text/models/questions")
    parser.add_argument("--base", type=Path, default=default, help=f"default {default}")
    add_options(parser, Options)
    arguments = parser.parse_args()
    options = read_options(arguments, Options)
    arguments.run.mkdir(parents=True, exist_ok=True)
    task = Rewriting(arguments.data, arguments.pairs, arguments.base, options)
    train(task, options, arguments.run, arguments.every)
    if arguments.export:
        export_and_judge(task, arguments)


if __name__ == "__main__":
    main()
