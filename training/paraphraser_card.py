"""Export the paraphraser, judge it on held-out pairs, and write its card (README.md)."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from causal import text_losses
from command_line import command_of
from corpus import END_OF_TEXT
from judging import mean_loss, shown
from splitting import key_of
from trainer import check_exported, export_model, stopped, write_facts
from transformers import AutoTokenizer, GPT2LMHeadModel, MBartForConditionalGeneration

from quasir.core.files import write_text
from quasir.text.seq2seq import Seq2SeqLM

if TYPE_CHECKING:
    from paraphraser import Rewriting

__all__ = ["export_and_judge"]

TERMS = "for research (the Quora question pairs)"
SOURCES, DRAWS, TOP_K = 8, 3, 30


def export(task: Rewriting, saved: dict[str, Any], folder: Any) -> MBartForConditionalGeneration:
    """Write the weights in float16, and return the model as `transformers` loads it."""
    model = task.build()
    model.load_state_dict(saved["model"])
    settings = {
        "eos_token": END_OF_TEXT,
        "pad_token": END_OF_TEXT,
        "model_max_length": task.options.context,
        "model_input_names": ["input_ids", "attention_mask"],
    }
    export_model(model, folder, task.tokenizer, settings)
    loaded = MBartForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
    check_exported(task.held_out(loaded), saved["loss"], most=2e-3)
    return loaded


def export_and_judge(task: Rewriting, arguments: argparse.Namespace) -> None:
    """Write the best weights of a run, in float16, and the card."""
    saved = torch.load(arguments.run / "best.pt", weights_only=True)
    folder = arguments.export
    model = export(task, saved, folder)
    held_out = [pair for pair in task.split.pairs.judgement if pair.same]
    pairs = task.both_ways(held_out)
    groups = 2 * [task.split.group[key_of(pair.first)] for pair in held_out]
    sums, lengths = task.pair_losses(model, pairs)
    base = GPT2LMHeadModel.from_pretrained(arguments.base, dtype=torch.float32)
    alone, _ = text_losses(base, [target for _, target in pairs], task.end)
    facts = write_facts(
        folder,
        saved,
        data=[arguments.data.name, arguments.pairs.name],
        terms=TERMS,
        stopped=stopped(arguments.run, task.options.steps),
        training_pairs=len(task.training) // 2,
        held_out_pairs=len(held_out),
        held_out_tokens=int(lengths.sum()),
        held_out_loss_per_token=mean_loss(sums, lengths, groups),
        held_out_loss_per_text=mean_loss(sums, np.ones(len(sums)), groups),
        held_out_loss_per_token_without_source=mean_loss(alone, lengths, groups),
        held_out_gain_per_token=mean_loss(alone - sums, lengths, groups),
        parameters=model.num_parameters(),
        positions=model.config.max_position_embeddings,
    )
    data = f"--data {arguments.data.name} --pairs {arguments.pairs.name}"
    usual = type(task.options)()
    command = command_of("paraphraser.py", "paraphraser", saved["options"], usual, data)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = []
    for number, pair in enumerate(held_out[:SOURCES]):
        proposal = Seq2SeqLM(
            source=pair.first, model=model.eval(), tokenizer=tokenizer, top_k=TOP_K, max_tokens=32
        )
        for item in proposal.sample(DRAWS, np.random.default_rng(number)).items:
            rows.append(f"| {pair.first} | {item.text} |")
    write_text(folder / "README.md", card(facts, command, rows))


def card(facts: dict[str, Any], command: str, rows: list[str]) -> str:
    """Return the text of the card."""
    options = facts["options"]
    weights = "averaged weights" if facts["averaged"] else "weights"
    samples = "\n".join(rows)
    positions = facts["positions"]
    return f"""---
license: other
terms: {TERMS}
language: en
library_name: transformers
---

# quasir/paraphraser

A small sequence-to-sequence model that rewrites a question as another of the same meaning: the
proposal of quasir's paraphrases (section 3.3 of the paper), where the target rejects what is not
one. Alone it is no good paraphraser: it often changes the meaning.

All numbers on this card were measured when the model was exported, by `training/paraphraser.py`.

## Data and terms

{facts["training_pairs"]:,} pairs of the same meaning of the Quora question pairs, from each side,
and their questions alone for denoising. The questions that pairs connect form a group. By a hash,
8 % of the groups were held out, and 2 % chose the step; no question is in two parts, and the parts
are those of `quasir/questions`. The texts themselves are not part of quasir. The weights carry the
terms of what they learnt from, unlike quasir's code (Apache-2.0): {TERMS}.

## Architecture

`MBartForConditionalGeneration`, {facts["parameters"]:,} parameters: {options["layers"]} layers on
each side, {options["width"]} wide, {options["heads"]} heads, MLPs of {options["hidden"]},
{positions} positions, embeddings tied, which began as those of `quasir/questions`. It has that
model's tokens under the same ids, so texts of one are scored by the other without encoding them
again. It has seen at most {options["context"]} tokens of a question.
Stored in float16.

## Training

    {command.replace(chr(10), chr(10) + "    ")}

The first {options["denoising"]:,} steps restore questions from which tokens were lost and moved.
Seed {options["seed"]}, {facts["minutes"]:.0f} minutes of training steps on one or two CPU cores
shared with other work, {facts["tokens_seen"]:,} tokens predicted up to step
{facts["best_step"]:,}, whose {weights} had the lowest loss on the pairs set aside for this choice.
The losses below are on other pairs, which have chosen nothing.{facts["stopped"]}

| held out: {facts["held_out_pairs"]:,} pairs, from each side, {facts["held_out_tokens"]:,} tokens \
| nats (95 % interval) |
|---|---|
| loss a token, given the other question | {shown(facts["held_out_loss_per_token"], 4)} |
| loss a token of `quasir/questions`, without it | \
{shown(facts["held_out_loss_per_token_without_source"], 4)} |
| gain a token | {shown(facts["held_out_gain_per_token"], 4)} |
| loss a text, given the other question | {shown(facts["held_out_loss_per_text"], 2)} |

The interval draws groups of questions anew.

## Samples

{DRAWS} draws with top-{TOP_K} for each of the first {SOURCES} held-out questions, unselected.

| question | draw |
|---|---|
{samples}
"""
