"""Train the built-in classifier `quasir/sentiment`, and export it with its card.

The labels are the ratings that some film reviews state ("8/10"): at least 7 is POSITIVE, at most 4
is NEGATIVE. The rating itself is taken out of the text. A linear model of words and pairs of words
learns from them, and a small transformer learns from the linear model's probabilities on pieces of
all reviews, because a thousand labelled texts are too few for a transformer alone.

    python training/sentiment.py --data general.txt.gz --export src/quasir/text/models/sentiment
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from corpus import END_OF_TEXT, read_texts, train_tokenizer
from scipy.special import expit
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from tokenizers.processors import TemplateProcessing
from torch.nn import functional
from transformers import (
    DistilBertConfig,
    DistilBertForSequenceClassification,
    PreTrainedTokenizerFast,
)

RATING = re.compile(r"(?<![\d.])(\d{1,2}(?:\.\d)?)\s*(?:/|out of)\s*(?:10|ten)\b", re.IGNORECASE)
REVIEW = re.compile(r"\b(this (movie|film|show)|I (saw|watched|loved|hated))\b")
LABELS = ["NEGATIVE", "POSITIVE"]
HELD_OUT = 0.25
POSITIONS, VOCABULARY, WIDTH, LAYERS = 192, 6144, 128, 2
BATCH, RATE = 48, 1.5e-3
SHARPER = 4.0
"""Of a few words the linear model says little; its log-odds are multiplied by this."""
SHORTEST, LONGEST = 6, 70
"""Words in a piece of a review that the transformer learns from."""


class Rated(NamedTuple):
    """A review without the rating that it states, and whether that is a good one."""

    text: str
    positive: bool


def read_reviews(path: Path) -> tuple[list[Rated], list[str]]:
    """Return the reviews whose rating is known and clear, and all others that state none."""
    rated, others = [], []
    for text in read_texts(path):
        if not REVIEW.search(text):
            continue
        ratings = [float(found) for found in RATING.findall(text)]
        if not ratings:
            others.append(text)
        elif min(ratings) >= 7 and max(ratings) <= 10:
            rated.append(Rated(RATING.sub(" ", text), True))
        elif max(ratings) <= 4:
            rated.append(Rated(RATING.sub(" ", text), False))
    return rated, others


def is_held_out(text: str) -> bool:
    """Return whether a review judges the result: a hash decides."""
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64 < HELD_OUT


def a_piece(text: str, rng: np.random.Generator) -> str:
    """Return some sentences of a text, between `SHORTEST` and about `LONGEST` words."""
    sentences = re.split(r"(?<=[.!?])\s+", text)
    start, wanted = int(rng.integers(len(sentences))), int(rng.integers(SHORTEST, LONGEST))
    words: list[str] = []
    for sentence in sentences[start:]:
        words += sentence.split()
        if len(words) >= wanted:
            break
    return " ".join(words[: wanted + 10])


def classifying_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """Return a tokenizer that puts a token before each text, whose state is classified."""
    plain = train_tokenizer(texts, VOCABULARY, lower=True)
    end = (END_OF_TEXT, plain.token_to_id(END_OF_TEXT))
    plain.post_processor = TemplateProcessing(
        single=f"{END_OF_TEXT} $A", pair=f"{END_OF_TEXT} $A {END_OF_TEXT} $B", special_tokens=[end]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=plain,
        pad_token=END_OF_TEXT,
        cls_token=END_OF_TEXT,
        model_max_length=POSITIONS,
        model_input_names=["input_ids", "attention_mask"],
    )


def wilson(right: int, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson)."""
    z, p = 1.96, right / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return middle - half, middle + half


def positive_shares(network, tokenizer, texts: list[str]) -> np.ndarray:
    """Return the network's probability of POSITIVE for each text."""
    found = []
    network.eval()
    for start in range(0, len(texts), BATCH):
        batch = tokenizer(
            texts[start : start + BATCH],
            padding=True,
            truncation=True,
            max_length=POSITIONS,
            return_tensors="pt",
        )
        with torch.inference_mode():
            logits = network(batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        found.append(logits.softmax(-1)[:, 1].numpy())
    network.train()
    return np.concatenate(found)


def main() -> None:
    """Train, judge and export."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="texts, one per line, gzipped")
    parser.add_argument("--export", type=Path, required=True, help="folder for the model")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)

    rated, others = read_reviews(options.data)
    judging = [one for one in rated if is_held_out(one.text)]
    known = [one for one in rated if not is_held_out(one.text)]
    words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    words.fit([one.text for one in known] + others)
    linear = LogisticRegression(C=10.0, max_iter=2000).fit(
        words.transform([one.text for one in known]), [one.positive for one in known]
    )
    tokenizer = classifying_tokenizer([one.text for one in known] + others)
    network = DistilBertForSequenceClassification(
        DistilBertConfig(
            vocab_size=len(tokenizer),
            max_position_embeddings=POSITIONS,
            dim=WIDTH,
            hidden_dim=2 * WIDTH,
            n_layers=LAYERS,
            n_heads=4,
            seq_classif_dropout=0.1,
            id2label=dict(enumerate(LABELS)),
            label2id={label: i for i, label in enumerate(LABELS)},
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    optimiser = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=options.steps)
    pool = [one.text for one in known] + others
    truth = {one.text: one.positive for one in known}
    network.train()
    total = 0.0
    for step in range(options.steps):
        chosen = [pool[i] for i in rng.integers(len(pool), size=BATCH)]
        pieces = [a_piece(text, rng) for text in chosen]
        wanted = expit(SHARPER * linear.decision_function(words.transform(pieces)))
        for i, text in enumerate(chosen):
            if text in truth:  # half the linear model's, half the rating itself
                wanted[i] = 0.5 * wanted[i] + 0.5 * truth[text]
        batch = tokenizer(
            pieces, padding=True, truncation=True, max_length=POSITIONS, return_tensors="pt"
        )
        logits = network(batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        aim = torch.tensor(np.stack([1 - wanted, wanted], 1), dtype=torch.float32)
        loss = functional.cross_entropy(logits, aim)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        total += loss.item()
        if (step + 1) % 250 == 0:
            print(f"step {step + 1}: loss {total / 250:.4f}", file=sys.stderr, flush=True)
            total = 0.0

    network = network.half().float()  # judged as it is stored
    labels = np.array([one.positive for one in judging])
    texts = [one.text for one in judging]
    shares = positive_shares(network, tokenizer, texts)
    linear_shares = linear.predict_proba(words.transform(texts))[:, 1]
    rows = []
    for name, found in (("quasir/sentiment", shares), ("the linear model", linear_shares)):
        right = int(((found > 0.5) == labels).sum())
        low, high = wilson(right, len(labels))
        rows.append(f"| {name} | {right / len(labels):.3f} ({low:.3f} to {high:.3f}) |")
        print(rows[-1])
    options.export.mkdir(parents=True, exist_ok=True)
    network.half().save_pretrained(options.export)
    tokenizer.save_pretrained(options.export)
    written = options.export / "tokenizer.json"  # without indentation it is less than half as long
    plain = json.loads(written.read_text(encoding="utf-8"))
    written.write_text(json.dumps(plain, ensure_ascii=False, separators=(",", ":")) + "\n")
    size = sum(file.stat().st_size for file in options.export.iterdir()) / 1e6
    parameters = sum(p.numel() for p in network.parameters())
    (options.export / "README.md").write_text(
        CARD.format(
            rated=len(rated),
            known=len(known),
            judging=len(judging),
            positive=int(labels.sum()),
            others=len(others),
            steps=options.steps,
            seed=options.seed,
            rows="\n".join(rows),
            parameters=parameters,
            layers=LAYERS,
            width=WIDTH,
            positions=POSITIONS,
            vocabulary=len(tokenizer),
        )
    )
    print(f"{size:.2f} MB")


CARD = """---
license: other
terms: for research (the Large Movie Review Dataset)
language: en
library_name: transformers
pipeline_tag: text-classification
---

# quasir/sentiment

A small classifier of film reviews: NEGATIVE or POSITIVE. It is there so that quasir's examples of
a classifier run without a download. It knows film reviews and little else; use a larger one for
anything that matters.

All numbers on this card were measured when the model was exported, by `training/sentiment.py`.

## Data and terms

Film reviews of the Large Movie Review Dataset. The dataset's own labels were not at hand: the
labels are the ratings that {rated:,} reviews state in their text ("8/10"; at least 7 is POSITIVE,
at most 4 NEGATIVE), and the ratings were taken out of the texts. {judging:,} of these reviews, by a
hash, judge the result; {known:,} taught a linear model of words and pairs of words, and its
probabilities on pieces of those and of {others:,} reviews without a rating taught this model. The
weights carry the terms of what they learnt from, unlike quasir's code (Apache-2.0): for research.

## Architecture

`DistilBertForSequenceClassification`, {parameters:,} parameters: {layers} layers, {width} wide, 4
heads, {positions} positions; longer texts are cut. Byte-level BPE of {vocabulary:,} in lower case.
Stored in float16.

## Training

    python training/sentiment.py --data general.txt.gz --export src/quasir/text/models/sentiment

{steps:,} steps of 48 pieces, AdamW, seed {seed}.

## Quality

Accuracy on the {judging:,} held-out reviews ({positive:,} of them POSITIVE), which taught nothing
and chose nothing; 95 % intervals (Wilson). Reviews longer than {positions} tokens are judged by
their beginning.

| | accuracy |
|---|---|
{rows}
"""


if __name__ == "__main__":
    main()
