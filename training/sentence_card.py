"""Export the sentence embedding, judge it on held-out pairs, and write its card (README.md)."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from command_line import command_of
from corpus import END_OF_TEXT
from judging import areas, shown
from scipy.sparse import issparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize
from splitting import Pair, key_of
from trainer import check_exported, export_model, stopped, write_facts
from transformers import DistilBertModel

from quasir.core.files import write_text

if TYPE_CHECKING:
    from sentences import SameMeaning

__all__ = ["export_and_judge"]

TERMS = "for research (the Quora question pairs)"
OURS, WORDS = "quasir/sentences", "bag of words (tf-idf)"
BESIDE = """ The larger embedding in the table may have seen these very
pairs: Quora questions are among its training data."""
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
SHOWN = 6
Embed = Callable[[list[str]], Any]


def loader(folder: Path) -> Embed:
    """Return the embedding of a folder, as sentence-transformers loads it."""
    from sentence_transformers import SentenceTransformer

    # Stored in float16, which is slow on a CPU.
    model = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": torch.float32})
    return lambda texts: model.encode(texts, convert_to_numpy=True, show_progress_bar=False)


def cosines(embed: Embed, pairs: Sequence[Pair]) -> np.ndarray:
    """Return the cosine of each pair; a text is embedded once, however many pairs it is in."""
    texts = sorted({text for pair in pairs for text in pair[:2]})
    row = {text: number for number, text in enumerate(texts)}
    rows = normalize(embed(texts))
    first, second = (rows[[row[pair[side]] for pair in pairs]] for side in (0, 1))
    products = first.multiply(second) if issparse(first) else first * second
    return np.asarray(products.sum(axis=1)).ravel()


def at_random(pairs: Sequence[Pair], group: dict[str, str], seed: int = 0) -> list[Pair]:
    """Return pairs of questions of different groups, drawn from the given pairs."""
    order = np.random.default_rng(seed).permutation(len(pairs))
    mixed = [Pair(pair.first, pairs[i].second, False) for pair, i in zip(pairs, order, strict=True)]
    return [pair for pair in mixed if group[key_of(pair.first)] != group[key_of(pair.second)]]


def export(task: SameMeaning, saved: dict[str, Any], folder: Path) -> None:
    """Write the weights in float16, with the files that say that the mean is the embedding."""
    model = task.build()
    model.load_state_dict(saved["model"])
    settings = {
        "pad_token": END_OF_TEXT,
        "model_max_length": task.options.context,
        "model_input_names": ["input_ids", "attention_mask"],
    }
    export_model(model, folder, task.tokenizer, settings)
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds.items())
    ]
    pooling = {"word_embedding_dimension": task.options.width, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "modules.json").write_text(json.dumps(modules, indent=2) + "\n")
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling, indent=2) + "\n")
    loaded = DistilBertModel.from_pretrained(folder, dtype=torch.float32)
    check_exported(task.held_out(loaded), saved["loss"], most=1e-2)


def export_and_judge(task: SameMeaning, arguments: argparse.Namespace) -> None:
    """Write the best weights of a run, in float16, and the card."""
    saved = torch.load(arguments.run / "best.pt", weights_only=True)
    folder = arguments.export
    export(task, saved, folder)
    words = TfidfVectorizer(token_pattern=r"\w+", sublinear_tf=True)
    words.fit(task.split.questions.training)
    embeds = {OURS: loader(folder), WORDS: words.transform}
    if arguments.beside:
        embeds[arguments.beside.name] = loader(arguments.beside)
    held_out = task.split.pairs.judgement
    same = [pair for pair in held_out if pair.same]
    kinds = {
        "labelled": [pair for pair in held_out if not pair.same],
        "random": at_random(same, task.split.group),
    }
    pairs = [*same, *kinds["labelled"], *kinds["random"]]
    scores = {name: cosines(embed, pairs) for name, embed in embeds.items()}
    groups = np.array([task.split.group[key_of(pair.first)] for pair in pairs])
    labels = np.array([pair.same for pair in pairs])
    part = np.repeat(["same", *kinds], [len(same), *map(len, kinds.values())])
    judged: dict[str, Any] = {}
    for kind in kinds:
        kept = (part == "same") | (part == kind)
        chosen = {name: values[kept] for name, values in scores.items()}
        judged[kind] = areas(chosen, labels[kept], groups[kept])
    above = {
        str(level): {kind: float((scores[OURS][part == kind] > level).mean()) for kind in set(part)}
        for level in LEVELS
    }
    facts = write_facts(
        folder,
        saved,
        data=[arguments.data.name, arguments.pairs.name],
        terms=TERMS,
        stopped=stopped(arguments.run, task.options.steps),
        training_pairs=len(task.split.pairs.training),
        held_out_pairs={"same": len(same)} | {kind: len(x) for kind, x in kinds.items()},
        held_out_auc=judged,
        held_out_share_above=above,
        beside=BESIDE if arguments.beside else "",
        parameters=sum(p.numel() for p in task.build().parameters()),
    )
    data = f"--data {arguments.data.name} --pairs {arguments.pairs.name}"
    usual = type(task.options)()
    command = command_of("sentences.py", "sentences", saved["options"], usual, data)
    examples = same[:SHOWN] + kinds["labelled"][:SHOWN]
    write_text(
        folder / "README.md", card(facts, command, examples, cosines(embeds[OURS], examples))
    )


def area_rows(judged: dict[str, Any]) -> str:
    """Return the table rows of the AUCs, one for each similarity."""
    rows = []
    for name, against in judged["labelled"].items():
        cells = [shown(against), shown(judged["random"][name], 4)]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def level_rows(above: dict[str, dict[str, float]]) -> str:
    """Return the table rows of the thresholds."""
    rows = []
    for level, shares in above.items():
        cells = [f"{100 * shares[kind]:.1f} %" for kind in ("same", "labelled", "random")]
        rows.append(f"| {level} | {' | '.join(cells)} |")
    return "\n".join(rows)


def card(facts: dict[str, Any], command: str, pairs: Sequence[Pair], values: np.ndarray) -> str:
    """Return the text of the card."""
    options, pairs_of = facts["options"], facts["held_out_pairs"]
    weights = "averaged weights" if facts["averaged"] else "weights"
    behind = facts["held_out_auc"]["labelled"][WORDS]
    examples = "\n".join(
        f"| {value:.2f} | {'same' if pair.same else 'other'} | {pair.first} | {pair.second} |"
        for pair, value in zip(pairs, values, strict=True)
    )
    return f"""---
license: other
terms: {TERMS}
language: en
library_name: sentence-transformers
pipeline_tag: sentence-similarity
---

# quasir/sentences

A small sentence embedding for questions: the cosine of two embeddings says how alike their
meanings are. It is there so that quasir's paraphrases run without a download. It knows little but
questions; a larger embedding is better (see the table).

All numbers on this card were measured when the model was exported, by `training/sentences.py`.

## Data and terms

{facts["training_pairs"]:,} labelled pairs of the Quora question pairs, and their questions for the
tokenizer. The questions that pairs connect form a group. 8 % of the groups, by a hash, were held
out, and 2 % chose the step; no question is in two parts. The texts themselves are not part of
quasir. The weights carry the terms of what they learnt from, unlike quasir's code (Apache-2.0):
{TERMS}.

## Architecture

`DistilBertModel`, {facts["parameters"]:,} parameters: {options["layers"]} layers,
{options["width"]} wide, {options["heads"]} heads, {options["context"]} positions. Byte-level BPE of
{options["vocabulary"]:,} in lower case. The embedding is the mean of the outputs over the tokens.
Stored in float16.

## Training

    {command.replace(chr(10), chr(10) + "    ")}

Each batch has {options["batch"]} pairs of the same meaning and {options["hard"]} that are labelled
as different. A text must find its partner among all texts of other groups (InfoNCE), and pairs
labelled as different must have smaller cosines than the others (CoSENT). Seed {options["seed"]},
{facts["minutes"]:.0f} minutes of training steps on one or two CPU cores shared with other work, up
to step {facts["best_step"]:,}, whose {weights} had the lowest loss on the pairs set aside for this
choice.{facts["stopped"]}

## Quality

AUC on held-out pairs, which have chosen nothing: the chance that a pair of the same meaning has a
larger cosine than another pair. There are {pairs_of["same"]:,} pairs of the same meaning,
{pairs_of["labelled"]:,} pairs that people labelled as different, and {pairs_of["random"]:,} random
pairs; 95 % intervals by the bootstrap over groups.{facts["beside"]}

| similarity | against labelled pairs | against random pairs |
|---|---|---|
{area_rows(facts["held_out_auc"])}

Against labelled pairs, {OURS} is above the bag of words by {behind["behind"]:.3f}
({behind["behind_low"]:.3f} to {behind["behind_high"]:.3f}).

Share of the held-out pairs with a cosine above a threshold:

| threshold | same meaning | labelled as different | random |
|---|---|---|---|
{level_rows(facts["held_out_share_above"])}

## Examples

The first {SHOWN} held-out pairs of each label, unselected.

| cosine | label | first | second |
|---|---|---|---|
{examples}
"""
