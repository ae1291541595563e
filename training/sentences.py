"""Train the built-in sentence embedding `quasir/sentences`, and export it.

A small transformer whose mean output is the embedding of a question: the cosine of two embeddings
says how alike their meanings are (section 3.3). The options and the seed determine a run. If it is
stopped, the same command resumes it from its last checkpoint, and the result is the same as
without the stop.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from command_line import add_options, read_options
from corpus import batch_order, kept_tokenizer
from sentence_card import export_and_judge
from splitting import Pair, key_of, split_questions
from torch.nn import functional
from trainer import Settings, train
from transformers import DistilBertConfig, DistilBertModel

HARD_STREAM = 3
ROWS = 72


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(Settings):
    """The options that, with the data, determine a run."""

    steps: int = 700
    decay: int = 500
    batch: int = 128
    hard: int = 16
    layers: int = 3
    context: int = 40
    vocabulary: int = 5120
    scale: float = 20.0
    # Rates three to five times as high, as for the causal models, made all embeddings alike.
    rate: float = 1e-3
    muon_rate: float = 3e-3
    precision: str = "bfloat16"


class Batch(NamedTuple):
    """Texts, with a row for each; row i and row i + half are a pair."""

    inputs: torch.Tensor
    attention: torch.Tensor
    same: torch.Tensor
    groups: torch.Tensor


def pad_with_attention(texts: Sequence[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Stack texts into inputs and their attention mask."""
    inputs = np.zeros((len(texts), max(map(len, texts))), dtype=np.int64)
    attention = np.zeros_like(inputs)
    for row, text in enumerate(texts):
        inputs[row, : len(text)] = text
        attention[row, : len(text)] = 1
    return torch.from_numpy(inputs), torch.from_numpy(attention)


def embed(model: DistilBertModel, inputs: torch.Tensor, attention: torch.Tensor) -> torch.Tensor:
    """Return the embeddings, of length 1: the mean output over the tokens of each text.

    Texts of similar length go through the model together, which needs little padding.
    """
    order, parts = attention.sum(1).argsort(stable=True), []
    for rows in order.split(ROWS):
        kept = attention[rows, : int(attention[rows].sum(1).max())]
        states = model(inputs[rows, : kept.shape[1]], attention_mask=kept).last_hidden_state
        sums = (states.float() * kept[..., None]).sum(1)
        parts.append(functional.normalize(sums, dim=-1))
    return torch.cat(parts)[order.argsort()]


def pair_losses(embeddings: torch.Tensor, batch: Batch, scale: float) -> torch.Tensor:
    """Return the loss of each text that has a partner of the same meaning.

    It is the surprise at the partner among the partner and all texts of other groups (InfoNCE),
    and the same for all texts, a penalty where a pair labelled as different has a larger cosine
    than one labelled as the same (CoSENT).
    """
    half = len(embeddings) // 2
    cosines = embeddings @ embeddings.T
    partner = torch.arange(2 * half).roll(half)
    rivals = batch.groups[:, None] != batch.groups[None, :]
    rivals[torch.arange(2 * half), partner] = True
    has_partner = batch.same.repeat(2)
    surprise = functional.cross_entropy(
        (scale * cosines).masked_fill(~rivals, -torch.inf)[has_partner],
        partner[has_partner],
        reduction="none",
    )
    if bool(batch.same.all()):
        return surprise
    own = scale * cosines[torch.arange(half), partner[:half]]
    gaps = (own[~batch.same][:, None] - own[batch.same][None, :]).flatten()
    return surprise + functional.softplus(gaps.logsumexp(0) - math.log(int(batch.same.sum())))


class SameMeaning:
    """The task: put questions of the same meaning close together; see `trainer.Task`."""

    def __init__(self, questions: Path, pairs: Path, run: Path, options: Options) -> None:
        self.options = options
        self.split = split_questions(questions, pairs)
        texts = self.split.questions.training
        self.tokenizer = kept_tokenizer(run, texts, options.vocabulary, lower=True)
        numbers = {name: i for i, name in enumerate(sorted(set(self.split.group.values())))}
        self.group = {key: numbers[name] for key, name in self.split.group.items()}
        self.same = [pair for pair in self.split.pairs.training if pair.same]
        self.other = [pair for pair in self.split.pairs.training if not pair.same]

    def encoded(self, texts: Sequence[str]) -> list[list[int]]:
        """Return texts as token ids, cut at the context."""
        return [e.ids[: self.options.context] for e in self.tokenizer.encode_batch(list(texts))]

    def batch_of(self, pairs: Sequence[Pair]) -> Batch:
        """Return the batch of some pairs."""
        texts = [pair.first for pair in pairs] + [pair.second for pair in pairs]
        groups = torch.tensor([self.group[key_of(text)] for text in texts])
        same = torch.tensor([pair.same for pair in pairs])
        return Batch(*pad_with_attention(self.encoded(texts)), same, groups)

    def build(self) -> DistilBertModel:
        """Return a model with fresh weights."""
        options = self.options
        torch.manual_seed(options.seed)
        return DistilBertModel(
            DistilBertConfig(
                vocab_size=self.tokenizer.get_vocab_size(),
                max_position_embeddings=options.context,
                n_layers=options.layers,
                n_heads=options.heads,
                dim=options.width,
                hidden_dim=4 * options.width,
                dropout=options.dropout,
                attention_dropout=0.0,
                pad_token_id=0,
            )
        )

    def is_block(self, name: str) -> bool:
        """Tell whether a parameter is inside a block."""
        return ".layer." in name

    def batches(self, first: int) -> Iterator[Batch]:
        """Yield pairs of the same meaning and, with them, `hard` labelled as different."""
        options = self.options
        sizes = np.array([len(pair.first) + len(pair.second) for pair in self.same])
        order = batch_order(sizes, options.batch, options.seed, first)
        for number, members in enumerate(order, first):
            rng = np.random.default_rng([options.seed, HARD_STREAM, number])
            hard = rng.integers(len(self.other), size=options.hard)
            pairs = [self.same[i] for i in members] + [self.other[i] for i in hard]
            yield self.batch_of(pairs)

    def losses(self, model: DistilBertModel, batch: Batch) -> torch.Tensor:
        """Return the loss of every text that has a partner."""
        embeddings = embed(model, batch.inputs, batch.attention)
        with torch.autocast("cpu", enabled=False):
            return pair_losses(embeddings, batch, self.options.scale)

    @torch.inference_mode()
    def held_out(self, model: DistilBertModel) -> float:
        """Return the mean loss on the pairs that choose the step, in one batch."""
        was_training = model.training
        model.eval()
        batch = self.batch_of(self.split.pairs.choice)
        loss = self.losses(model, batch).mean().item()
        model.train(was_training)
        return loss


def main() -> None:
    """Train or resume training, then export on request."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  python training/sentences.py --data questions.txt.gz "
        "--pairs question_pairs.tsv.gz \\\n      --run runs/sentences "
        "--export src/quasir/text/models/sentences",
    )
    parser.add_argument("--pairs", type=Path, required=True, help="pairs of questions, gzipped")
    parser.add_argument("--beside", type=Path, help="folder of an embedding to judge as well")
    add_options(parser, Options)
    arguments = parser.parse_args()
    options = read_options(arguments, Options)
    arguments.run.mkdir(parents=True, exist_ok=True)
    task = SameMeaning(arguments.data, arguments.pairs, arguments.run, options)
    train(task, options, arguments.run, arguments.every)
    if arguments.export:
        export_and_judge(task, arguments)


if __name__ == "__main__":
    main()
