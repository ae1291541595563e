"""The card (README.md) of the built-in masked model: its origin, and examples of its predictions.

Every number on it is measured when the model is exported, or read from the record of the run.
"""

from __future__ import annotations

import json
from typing import Any

import torch
from corpus import END_OF_TEXT, data_and_licence
from tokenizers import Tokenizer
from transformers import MegatronBertForMaskedLM

__all__ = ["card", "guesses"]

EXAMPLES = (
    "John Smith (born 4 May 1952) is an American<|mask|> player.",
    "Mary Jones was a British chemist.<|mask|> was born in London.",
    "He played for the New York<|mask|> from 1990 to 1995.",
)


@torch.inference_mode()
def guesses(model: MegatronBertForMaskedLM, tokenizer: Tokenizer, mask: int) -> list[str]:
    """Return the five most probable tokens at the mask of each example."""
    lines = []
    for text in EXAMPLES:
        ids = torch.tensor([tokenizer.encode(text).ids])
        at = int((ids[0] == mask).nonzero()[0, 0])
        probs = model.eval()(ids).logits[0, at].softmax(-1)
        best = probs.topk(5)
        shown = [
            f"{json.dumps(tokenizer.decode([i]), ensure_ascii=False)} {100 * p:.0f} %"
            for p, i in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]
        lines.append(f"- `{text}`: {', '.join(shown)}")
    return lines


def card(
    facts: dict[str, Any], mask: str, measured: float, command: str, examples: list[str]
) -> str:
    """Return the text of the model's card."""
    options = facts["options"]
    weights = "averaged weights" if facts["averaged"] else "weights"
    return f"""---
license: cc-by-sa-4.0
language: en
library_name: transformers
pipeline_tag: fill-mask
---

# quasir/biographies-masked

A small masked language model of the openings of biographies, with the tokens of
`quasir/biographies`: an editor for random-walk Metropolis-Hastings over that model's texts
(`python -m experiments.walks RUN --samplers rwmh`). It is not there to be
right: what it puts into a text about a person is made up.

All numbers on this card were measured when the model was exported, by `training/masked.py`.

## Data and licence

{data_and_licence(facts["texts"], facts["held_out_texts"])}

## Architecture

`MegatronBertForMaskedLM`, {facts["parameters"]:,} parameters: {options["layers"]} layers,
{options["width"]} wide, {options["heads"]} heads, MLPs of {options["hidden"]},
{options["context"] + 2} positions, input and output embeddings tied. The vocabulary is that of
`quasir/biographies`, with the same ids, and `{mask}` after it: {facts["vocabulary"]:,} entries. A
text is `{END_OF_TEXT} tokens... {END_OF_TEXT}`, of at most {options["context"]} tokens. Stored in
float16.

## Training

    {command.replace(chr(10), chr(10) + "    ")}

It begins with the weights of `quasir/biographies`, and learns to fill masks with both sides in
sight: between 0 and {200 * options["masked"]:.0f} % of a text's tokens, every other text being cut
anywhere. Seed {options["seed"]}, {facts["minutes"]:.0f} minutes of training steps on two CPU cores,
{facts["tokens_seen"]:,} masks seen up to step {facts["best_step"]:,}, whose {weights} had the
lowest held-out loss.

| held out: {facts["held_out_texts"]:,} texts | nats |
|---|---|
| loss a mask, one token in {1 / measured:.0f} masked ({facts["held_out_masks"]:,} masks) | \
{facts["held_out_loss_per_mask"]:.4f} |
| loss of a single mask in a text | {facts["held_out_loss_of_a_single_mask"]:.4f} |

## Examples

The five most probable tokens at the mask, unselected.

{chr(10).join(examples)}
"""
