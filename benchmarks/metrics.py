"""Metrics: how the time of Self-BLEU grows with the number of texts, and NLTK's time."""

import numpy as np
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

from benchmarks.show import best
from quasir.metrics.diversity import bleu_of_each

FEW, MANY, WORDS, VOCABULARY = 1_000, 10_000, 30, 20_000
ASKED = 50


def rows(few=FEW, many=MANY, asked=ASKED):
    texts = made_up(many)
    few_time = best(lambda: bleu_of_each(texts[:few]), 9)
    many_time = best(lambda: bleu_of_each(texts))
    yield (
        f"Self-BLEU: times the time of {few:,} texts, for {many:,}",
        many_time / few_time,
        "<= 15",
        f"{1e3 * many_time:.0f} ms against {1e3 * few_time:.1f} ms, texts of about {WORDS} words",
    )
    chosen = np.random.default_rng(1).choice(few, asked, replace=False)
    scores = []
    loop_time = best(lambda: scores.extend(by_nltk(texts[:few], chosen)), 1) * few / asked
    np.testing.assert_allclose(bleu_of_each(texts[:few])[chosen], scores, rtol=0, atol=1e-9)
    yield (
        f"Self-BLEU: times faster than NLTK's loop, {few:,} texts",
        loop_time / few_time,
        ">= 50",
        f"{1e3 * few_time:.1f} ms against {loop_time:.0f} s ({asked} random texts scored against "
        f"all others, times {few / asked:g}); their scores agree to 1e-9",
    )


def made_up(n):
    """Return texts of 20 to 40 words; the frequency of a word falls as 1/rank."""
    rng = np.random.default_rng(0)
    chances = 1 / np.arange(1, VOCABULARY + 1)
    lengths = rng.integers(WORDS - 10, WORDS + 11, n)
    words = [f"w{i}" for i in rng.choice(VOCABULARY, lengths.sum(), p=chances / chances.sum())]
    ends = np.cumsum(lengths)
    return [" ".join(words[end - k : end]) for k, end in zip(lengths, ends, strict=True)]


def by_nltk(texts, chosen):
    """Score the chosen texts against all others, as NLTK's documentation shows."""
    tokens = [text.split() for text in texts]
    smooth = SmoothingFunction().method1
    return [
        sentence_bleu(tokens[:i] + tokens[i + 1 :], tokens[i], (0.2,) * 5, smooth) for i in chosen
    ]
