"""Export a causal model, judge it on held-out texts, and write its card (README.md)."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from causal import NextToken, export_causal, held_out_loss, text_losses
from command_line import command_of
from judging import mean_loss, numbered, shown
from model_card import draw_texts, word_rows
from trainer import check_exported, stopped, write_facts

from quasir.core.files import write_text

__all__ = ["About", "export_and_judge"]

NEW_TOKENS = 40
SAMPLES = 20


@dataclasses.dataclass(frozen=True)
class About:
    """What a card says in words."""

    name: str
    writes: str
    data: str
    terms: str


def export_and_judge(
    task: NextToken,
    arguments: argparse.Namespace,
    judgement: Sequence[str],
    groups: Sequence[Any],
    about: About,
) -> None:
    """Write the best weights of a run, in float16, and the card.

    Parameters
    ----------
    task : NextToken
    arguments : Namespace
        The command line; `--draws` is the number of texts that the card counts words in.
    judgement : sequence of str
        The held-out texts that have chosen nothing.
    groups : sequence
        The group of each of them; the texts of a group are alike.
    about : About
    """
    saved = torch.load(arguments.run / "best.pt", weights_only=True)
    options = type(task.options)(**saved["options"])
    folder = arguments.export
    model = export_causal(saved, folder, task.tokenizer, options)
    check_exported(held_out_loss(model, task.unseen, task.end)["per_token"], saved["loss"])
    texts = task.encoded(judgement)
    sums, lengths = text_losses(model, texts, task.end)
    facts = write_facts(
        folder,
        saved,
        data=arguments.data.name,
        terms=about.terms,
        stopped=stopped(arguments.run, options.steps),
        training_texts=len(task.training),
        held_out_groups=len(set(groups)),
        held_out_texts=len(texts),
        held_out_tokens=int(lengths.sum()),
        held_out_loss_per_token=mean_loss(sums, lengths, groups),
        held_out_loss_per_text=mean_loss(sums, np.ones(len(sums)), groups),
        parameters=model.num_parameters(),
    )
    new_tokens = min(NEW_TOKENS, options.context)
    drawn = draw_texts(folder, arguments.draws, new_tokens, options.seed, arguments.threads)
    usual = type(task.options)()
    data = f"--data {arguments.data.name}"
    if "pairs" in arguments:
        data += f" --pairs {arguments.pairs.name}"
    command = command_of(f"{about.name}.py", about.name, saved["options"], usual, data)
    write_text(folder / "README.md", card(about, facts, command, [text for text, _ in drawn]))


def card(about: About, facts: dict[str, Any], command: str, drawn: list[str]) -> str:
    """Return the text of the card."""
    options = facts["options"]
    weights = "averaged weights" if facts["averaged"] else "weights"
    return f"""---
license: other
terms: {about.terms}
language: en
library_name: transformers
pipeline_tag: text-generation
---

# quasir/{about.name}

A small GPT-2-architecture language model that writes {about.writes}. It is there so that quasir's
examples and experiments have a real model without a download. What it writes is made up.

All numbers on this card were measured when the model was exported, by `training/{about.name}.py`.

## Data and terms

{about.data} The texts themselves are not part of quasir. The weights carry the terms of what they
learnt from, unlike quasir's code (Apache-2.0): {about.terms}.

## Architecture

`GPT2LMHeadModel`, {facts["parameters"]:,} parameters: {options["layers"]} layers,
{options["width"]} wide, {options["heads"]} heads, {options["context"]} positions, input and output
embeddings tied. Byte-level BPE of {options["vocabulary"]:,}, trained on the training part;
`<|endoftext|>` begins, ends and pads a text. Stored in float16. The model has seen at most the
first {options["context"]} tokens of a text.

## Training

    {command.replace(chr(10), chr(10) + "    ")}

Seed {options["seed"]}, {facts["minutes"]:.0f} minutes of training steps on one or two CPU cores
shared with other work, {facts["tokens_seen"]:,} tokens of {facts["training_texts"]:,} texts seen up
to step {facts["best_step"]:,}, whose {weights} had the lowest loss on the texts set aside for this
choice. The loss below is on other texts, which have chosen nothing.{facts["stopped"]}

| held out: {facts["held_out_texts"]:,} texts, {facts["held_out_tokens"]:,} tokens | nats (95 % \
interval) |
|---|---|
| loss a token | {shown(facts["held_out_loss_per_token"], 4)} |
| loss a text (at most {options["context"]} tokens) | {shown(facts["held_out_loss_per_text"], 2)} |

The interval draws {facts["held_out_groups"]:,} groups of texts anew.

## How rare some words are

In {len(drawn):,} draws of at most {NEW_TOKENS} tokens, temperature 1, no top-k; whole words in
either case.

| word | texts | one text in |
|---|---|---|
{word_rows(drawn)}

## Samples

The first {SAMPLES} of the same draws, unselected, as JSON strings.

{numbered(drawn[:SAMPLES])}
"""
