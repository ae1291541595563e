"""Write the card (README.md) of a built-in model: its origin, base rates and samples.

Every number on the card is measured here or read from the record of the training run.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import multiprocessing
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from biographies import Options
from causal import held_out_loss
from command_line import command_of
from corpus import HELD_OUT_SHARE, data_and_licence, encode, read_texts, split_held_out
from sampling import sample_tokens
from transformers import AutoModelForCausalLM, AutoTokenizer

from quasir.cli.main import keep_freed_memory
from quasir.core.files import write_text

# The word lists of the paper's features.
SCIENCE = (
    "scientist sociologist philosopher inventor student astronomer historian academic researcher "
    "chemist"
).split()
SPORTS = "footballer trainer player swimmer cyclist athlete wrestler golfer cricketer".split()
FEMALE = "she her herself".split()
MALE = "he him himself".split()
CANDIDATES = (
    "amazing wikipedia Nobel chess violin Olympic mathematician astronaut opera jazz poet "
    "physicist engineer painter bishop pirate spy violinist pianist botanist sculptor "
    "astronomer economist geologist nurse ballet Antarctica Everest feminist"
).split()
SAMPLES = 20
BLOCK = 2048


def has_any(words: Sequence[str]) -> Callable[[str], bool]:
    """Return a test whether a text contains one of `words` as a whole word, in either case."""
    pattern = re.compile(rf"\b(?:{'|'.join(words)})\b", re.IGNORECASE)
    return lambda text: pattern.search(text) is not None


def is_female(flags: int) -> Callable[[str], bool]:
    """Return a test for more female than male pronouns; `re.IGNORECASE` also counts "She"."""
    female = re.compile(rf"\b(?:{'|'.join(FEMALE)})\b", flags)
    male = re.compile(rf"\b(?:{'|'.join(MALE)})\b", flags)
    return lambda text: len(female.findall(text)) > len(male.findall(text))


def measure_rates(texts: Sequence[str]) -> dict[str, int]:
    """Count the texts that have each feature of the paper, and the intersections."""
    tests = {
        "female": is_female(re.IGNORECASE),
        "female, lower-case pronouns only": is_female(0),
        "scientist": has_any(SCIENCE),
        "sports": has_any(SPORTS),
    }
    columns = {name: [test(text) for text in texts] for name, test in tests.items()}
    for first in ("female", "female, lower-case pronouns only"):
        for second in ("scientist", "sports"):
            both = zip(columns[first], columns[second], strict=True)
            columns[f"{first} ∧ {second}"] = [a and b for a, b in both]
    return {name: sum(column) for name, column in columns.items()}


def share_row(name: str, hits: int, count: int) -> str:
    """Return a table row: a share and its binomial standard error, in per cent."""
    share = hits / count
    error = math.sqrt(share * (1 - share) / count)
    return f"| {name} | {hits:,} | {100 * share:.3f} % | {100 * error:.3f} % |"


def word_row(word: str, hits: int, count: int) -> str:
    """Return a table row: the number of texts with a word, and how many texts contain one."""
    rarity = f"{count / hits:,.0f}" if hits else f"more than {count:,}"
    return f"| {word} | {hits:,} | {rarity} |"


def training_command(options: dict[str, Any]) -> str:
    """Return the command that repeats the run; default options are omitted."""
    general = " --general general.txt.gz" if options["general_steps"] else ""
    data = f"--data biographies.txt.gz{general}"
    return command_of("biographies.py", "biographies", options, Options(), data)


def draw_block(folder: Path, block: int, new_tokens: int, seed: int) -> list[tuple[str, int]]:
    """Return the texts of one block and their numbers of tokens; they depend on (seed, block)."""
    torch.set_num_threads(1)
    keep_freed_memory()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    state = np.random.SeedSequence(seed, spawn_key=(block,)).generate_state(1)
    rows = sample_tokens(model, BLOCK, new_tokens, int(state[0]))
    return [(tokenizer.decode(row), len(row)) for row in rows]


def draw_texts(
    folder: Path, draws: int, new_tokens: int, seed: int, workers: int
) -> list[tuple[str, int]]:
    """Draw texts in blocks and processes: small matrices gain little from threads."""
    texts: list[tuple[str, int]] = []
    blocks = range(math.ceil(draws / BLOCK))
    work = functools.partial(draw_block, folder, new_tokens=new_tokens, seed=seed)
    spawn = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        run = map
        if min(workers, len(blocks)) > 1:  # one block needs no other process
            run = stack.enter_context(ProcessPoolExecutor(workers, mp_context=spawn)).map
        for block in run(work, blocks):
            texts += block
            print(f"{len(texts)} draws", file=sys.stderr, flush=True)
    return texts[:draws]


def rate_rows(texts: Sequence[str]) -> str:
    """Return the table rows of the paper's features."""
    rates = measure_rates(texts)
    return "\n".join(share_row(name, hits, len(texts)) for name, hits in rates.items())


def word_rows(texts: Sequence[str]) -> str:
    """Return the table rows of the candidate words, the most frequent first."""
    occurring = Counter(word for text in texts for word in set(re.findall(r"\w+", text.lower())))
    counts = {word: occurring[word.lower()] for word in CANDIDATES}
    in_order = sorted(counts.items(), key=lambda item: -item[1])
    return "\n".join(word_row(word, hits, len(texts)) for word, hits in in_order)


def general_steps_note(options: dict[str, Any]) -> str:
    """Return the card's sentence about the general steps, if the run has any."""
    if not options["general_steps"]:
        return ""
    return (
        f" The first {options['general_steps']:,} steps were on openings of encyclopaedia pages "
        "and film reviews (the Large Movie Review Dataset), without those that open like a "
        "held-out biography."
    )


def write_card(
    folder: Path, data: Path, drawn: list[tuple[str, int]], new_tokens: int, seed: int
) -> str:
    """Measure everything and return the text of the card."""
    texts, draws = [text for text, _ in drawn], len(drawn)
    lengths = sum(length for _, length in drawn)
    facts = json.loads((folder / "training.json").read_text())
    options = facts["options"]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    training, held_out = split_held_out(read_texts(data), HELD_OUT_SHARE)
    encoded = encode(tokenizer.backend_tokenizer, held_out, options["context"])
    loss = held_out_loss(model, encoded, tokenizer.eos_token_id)
    samples = "\n".join(
        f"{i}. {json.dumps(t, ensure_ascii=False)}" for i, t in enumerate(texts[:SAMPLES], 1)
    )
    weights = "averaged weights" if facts["averaged"] else "weights"
    return f"""---
license: cc-by-sa-4.0
language: en
library_name: transformers
pipeline_tag: text-generation
---

# quasir/biographies

A small GPT-2-architecture language model that writes the openings of biographies. It is there so
that quasir's examples, tests and benchmarks have a real base model without a download. It is not
there to be right: what it writes about a person is made up, even where the name is a real one.

All numbers on this card come from `training/model_card.py`:

    python training/model_card.py --data biographies.txt.gz --draws {draws} --seed {seed} \\
        --folder src/quasir/text/models/biographies

## Data and licence

{data_and_licence(len(training) + len(held_out), len(held_out), general_steps_note(options))}

The model repeats whom Wikipedia writes about, and how, with its imbalances: see the base rates.

## Architecture

`GPT2LMHeadModel`, {facts["parameters"]:,} parameters: {options["layers"]} layers,
{options["width"]} wide, {options["heads"]} heads, {options["context"]} positions, input and output
embeddings tied. Byte-level BPE of {options["vocabulary"]:,} trained on the training part;
`<|endoftext|>` begins, ends and pads a text. Stored in float16. A text is
`<|endoftext|> tokens... <|endoftext|>`, and the model has seen at most the first
{options["context"]} tokens of one.

## Training

    {training_command(options).replace(chr(10), chr(10) + "    ")}

Seed {options["seed"]}, {facts["minutes"]:.0f} minutes of training steps on two CPU cores
shared with other work, {facts["tokens_seen"]:,}
tokens seen up to step {facts["best_step"]:,}, whose {weights} had the lowest held-out loss.
The held-out texts chose that step and, in pilot runs of 200 steps, the optimizer and its rates.

| held out: {loss["tokens"]:,} tokens, {len(held_out):,} texts | nats |
|---|---|
| loss a token | {loss["per_token"]:.4f} |
| loss a text (at most {options["context"]} tokens) | {loss["per_text"]:.2f} |

## Base rates

{draws:,} texts of at most {new_tokens} tokens ({lengths / draws:.1f} on average), temperature 1, no
top-k. Whole words, either case, from the paper's lists; a text is female when its female pronouns
outnumber the male ones.

| feature | texts | share | standard error |
|---|---|---|---|
{rate_rows(texts)}

## How rare some words are

In the same draws, whole words in either case.

| word | texts | one text in |
|---|---|---|
{word_rows(texts)}

## Samples

The first {SAMPLES} of the same draws, unselected, as JSON strings.

{samples}
"""


def main() -> None:
    """Read the command line and write the card."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  python training/model_card.py --data biographies.txt.gz \\\n"
        "      --folder src/quasir/text/models/biographies",
    )
    parser.add_argument("--folder", type=Path, required=True, help="folder of the exported model")
    parser.add_argument("--data", type=Path, required=True, help="the texts it was trained on")
    parser.add_argument("--draws", type=int, default=100_000, help="texts drawn (default 100000)")
    parser.add_argument("--new-tokens", type=int, default=40, help="tokens a text (default 40)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draws (default 0)")
    parser.add_argument("--output", type=Path, help="where to write (default FOLDER/README.md)")
    parser.add_argument("--workers", type=int, default=2, help="processes that draw (default 2)")
    arguments = parser.parse_args()
    drawn = draw_texts(
        arguments.folder, arguments.draws, arguments.new_tokens, arguments.seed, arguments.workers
    )
    card = write_card(arguments.folder, arguments.data, drawn, arguments.new_tokens, arguments.seed)
    path = arguments.output or arguments.folder / "README.md"
    write_text(path, card)


if __name__ == "__main__":
    main()
