"""Make the built-in classifier `quasir/sentiment`, and export it with its card.

The labels are the ratings that some film reviews state ("8/10"): at least 7 is POSITIVE, at most 4
is NEGATIVE. The rating itself is taken out of the text. A linear model of words and pairs of words
learns from them. A second linear model, of how often each token of a tokenizer occurs, learns from
the first one's probabilities on all reviews and on pieces of them. It is stored as a transformer of
one layer that computes it exactly, so that transformers loads it like any other classifier.

    python training/sentiment.py --data general.txt.gz --export src/quasir/text/models/sentiment
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from corpus import END_OF_TEXT, read_texts, train_tokenizer
from scipy import sparse
from scipy.special import expit
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from tokenizers.processors import TemplateProcessing
from transformers import (
    DistilBertConfig,
    DistilBertForSequenceClassification,
    PreTrainedTokenizerFast,
)

RATING = re.compile(r"(?<![\d.])(\d{1,2}(?:\.\d)?)\s*(?:/|out of)\s*(?:10|ten)\b", re.IGNORECASE)
REVIEW = re.compile(r"\b(this (movie|film|show)|I (saw|watched|loved|hated))\b")
LABELS = ["NEGATIVE", "POSITIVE"]
HELD_OUT = 0.25
POSITIONS, VOCABULARY, BATCH = 512, 16384, 64
SHARPER = 4.0
"""Of a few words the linear model says little; its log-odds are multiplied by this."""
SHORTEST, LONGEST = 6, 70
"""Words in a piece of a review."""
SCALE = 100.0
"""Frequencies of tokens are multiplied by this before they are learnt from."""
LARGEST, MOST = 0.9, 0.05
"""The largest coordinates of an embedding (below 1), and of a mean (small: it is normalised)."""


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


def frequencies(tokenizer, texts: list[str]) -> sparse.csr_matrix:
    """Return how often each token occurs in each text, as a share of what the network reads."""
    rows = tokenizer(texts, truncation=True, max_length=POSITIONS)["input_ids"]
    lengths = [len(row) for row in rows]
    values = np.repeat(SCALE / np.array(lengths), lengths)
    places = np.repeat(np.arange(len(rows)), lengths), np.concatenate(rows)
    return sparse.csr_matrix((values, places), shape=(len(rows), len(tokenizer)))


def learn(counts: sparse.csr_matrix, shares: np.ndarray) -> LogisticRegression:
    """Learn probabilities: each text counts as POSITIVE with its share, and NEGATIVE else."""
    both = sparse.vstack([counts, counts])
    labels = np.repeat([True, False], len(shares))
    weights = np.concatenate([shares, 1 - shares])
    return LogisticRegression(C=1.0, max_iter=300).fit(both, labels, sample_weight=weights)


def as_network(weights: np.ndarray, bias: float, tokenizer):
    """Return the transformer that computes the logistic model of a text's mean token weight.

    An embedding (a, -a, b, -b) with a^2 + b^2 = 1 passes its normalisation unchanged, up to a
    factor sqrt(2). Keys are zero, so that each position takes the mean of all. The first token has
    a = 0, so that its state is (m, -m, sqrt(2), -sqrt(2)) with a small m: the mean.
    """
    config = DistilBertConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=POSITIONS,
        dim=4,
        hidden_dim=4,
        n_layers=1,
        n_heads=1,
        id2label=dict(enumerate(LABELS)),
        label2id={label: i for i, label in enumerate(LABELS)},
        pad_token_id=tokenizer.pad_token_id,
    )
    network = DistilBertForSequenceClassification(config)
    for name, parameter in network.named_parameters():
        parameter.data.fill_(float("norm" in name.lower() and name.endswith("weight")))
    layer = network.distilbert.transformer.layer[0]
    largest = np.abs(weights).max() / LARGEST
    a = torch.tensor(weights / largest)
    b = torch.sqrt(1 - a**2)
    network.distilbert.embeddings.word_embeddings.weight.data = torch.stack([a, -a, b, -b], 1)
    layer.attention.v_lin.weight.data[0, 0] = MOST
    layer.attention.v_lin.weight.data[1, 1] = MOST
    layer.attention.out_lin.weight.data = torch.eye(4)
    network.pre_classifier.weight.data = torch.eye(4)
    slope = SCALE * largest / (MOST * math.sqrt(2))
    network.classifier.weight.data[1, :2] = torch.tensor([slope, -slope])
    network.classifier.bias.data[1] = bias
    return network.float().eval()


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
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
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
    texts = [one.text for one in known] + others
    texts += [a_piece(text, rng) for text in texts]
    shares = expit(SHARPER * linear.decision_function(words.transform(texts)))
    for half in (0, len(texts) // 2):  # half the linear model's, half the rating itself
        rated_ones = slice(half, half + len(known))
        shares[rated_ones] = (shares[rated_ones] + [one.positive for one in known]) / 2
    counts = frequencies(tokenizer, texts)
    counts[:, tokenizer.cls_token_id] = 0
    fitted = learn(counts.tocsr(), shares)
    network = as_network(fitted.coef_[0], float(fitted.intercept_[0]), tokenizer)
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
            seed=options.seed,
            rows="\n".join(rows),
            parameters=parameters,
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
hash, judge the result; {known:,} taught a linear model of words and pairs of words. Its
probabilities on these, on {others:,} reviews without a rating, and on a piece of each taught this
model. The weights carry the terms of what they learnt from, unlike quasir's code (Apache-2.0): for
research.

## Architecture

A linear model: the log-odds of POSITIVE are the mean weight of a text's tokens, times a constant,
plus another. It is stored as a `DistilBertForSequenceClassification` of one layer, 4 wide, with
{parameters:,} parameters that compute this, so that transformers loads it like any other
classifier. It reads {positions} tokens; longer texts are cut. Byte-level BPE of {vocabulary:,} in
lower case. Stored in float16.

## Training

    python training/sentiment.py --data general.txt.gz --export src/quasir/text/models/sentiment

Two logistic regressions; the pieces come from seed {seed}.

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
