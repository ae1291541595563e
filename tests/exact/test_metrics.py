"""Self-BLEU against NLTK, and the other metrics against counting by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

import quasir as qr
from quasir import metrics
from quasir.core.items import Coded, Strings
from quasir.metrics.diversity import (
    bleu_of_each,
    code,
    sort_pairs,
)

SPLIT = {"word": str.split, "character": list}
UNITS = list(SPLIT)
ORDERS = (1, 2, 3, 4, 5)


def by_nltk(texts, n, unit, with_itself=False):
    """Return NLTK's score of each text against all the others, one loop at a time."""
    tokens = [SPLIT[unit](text) for text in texts]
    return [
        sentence_bleu(
            tokens if with_itself else tokens[:i] + tokens[i + 1 :],
            tokens[i],
            weights=(1 / n,) * n,
            smoothing_function=SmoothingFunction().method1,
        )
        for i in range(len(tokens))
    ]


def agrees(texts, n, unit):
    theirs = by_nltk(texts, n, unit)
    np.testing.assert_allclose(bleu_of_each(texts, n, unit), theirs, rtol=0, atol=1e-12)
    assert metrics.self_bleu(texts, n, unit) == pytest.approx(np.mean(theirs), abs=1e-9)


def read_texts(words, longest):
    return st.lists(st.lists(st.sampled_from(words), max_size=longest).map(" ".join), min_size=2)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("n", ORDERS)
@settings(max_examples=40)
@given(texts=read_texts(["a", "b", "ab", "\u00e9t\u00e9\n"], 12))
def test_self_bleu_is_nltks(texts, n, unit):
    agrees(texts, n, unit)


@pytest.mark.parametrize("unit", UNITS)
@settings(max_examples=40)
@given(texts=st.lists(st.text(max_size=8), min_size=2, max_size=6), n=st.integers(1, 5))
def test_self_bleu_of_any_strings(texts, n, unit):
    agrees(texts, n, unit)


def test_what_self_bleu_is_not():
    """The comparison above can fail: each of these is told from the true score."""
    texts = ["a a b c", "a b c d e", "a b", "a a a", "b c b c b c"]
    ours = metrics.self_bleu(texts, 2)
    assert ours == pytest.approx(np.mean(by_nltk(texts, 2, "word")), abs=1e-9)
    assert np.mean(by_nltk(texts, 2, "word", with_itself=True)) == pytest.approx(1)
    assert abs(ours - 1) > 0.01
    assert abs(ours - metrics.self_bleu(texts, 2, "character")) > 0.01
    assert abs(ours - metrics.self_bleu(texts, 3)) > 0.01
    # Clipped at the highest count anywhere, the text's own included, "a a a" would match whole.
    assert bleu_of_each(texts, 1)[3] == pytest.approx(2 / 3)


def counted(texts, n, unit):
    tokens = [SPLIT[unit](text) for text in texts]
    return [tuple(t[i : i + n]) for t in tokens for i in range(len(t) - n + 1)]


@settings(max_examples=50)
@given(read_texts("abc", 8), st.integers(1, 4), st.sampled_from(UNITS))
def test_distinct_is_what_a_set_counts(texts, n, unit):
    grams = counted(texts, n, unit)
    if grams:
        assert metrics.distinct(texts, n, unit) == len(set(grams)) / len(grams)
    else:
        with pytest.raises(qr.errors.InputError, match=f"none of the {len(texts)} texts"):
            metrics.distinct(texts, n, unit)


@settings(max_examples=50)
@given(
    st.sampled_from([3, 2**40, 2**62]),  # of the last, key and place do not fit in one number
    st.lists(st.integers(0, 9), max_size=20),
    st.integers(0, 10**6),
)
def test_the_order_of_keys_and_places(most, places, seed):
    rng = np.random.default_rng(seed)
    key = rng.choice(rng.integers(0, most, 5), len(places))
    got = sort_pairs(key, np.array(places, dtype=np.int64))
    want = sorted(zip(key.tolist(), places, strict=True))
    assert list(zip(got[0].tolist(), got[1].tolist(), strict=True)) == want


@settings(max_examples=30)
@given(st.lists(st.text(max_size=2), min_size=1, max_size=20))
def test_unique_share(texts):
    assert metrics.unique_share(texts) == len(set(texts)) / len(texts)


def test_items_of_every_kind():
    class Text:
        def __init__(self, text):
            self.text = text

    texts = ["a b c", "a b", "a b c"]
    kinds = [
        texts,
        tuple(texts),
        Strings.of(texts),
        Coded(("a b", "a b c", "unused"), np.array([1, 0, 1])),
        [Text(text) for text in texts],
        np.array(texts, dtype=object),
        np.array(texts),
    ]
    for kind in kinds:
        assert metrics.self_bleu(kind, 2) == metrics.self_bleu(texts, 2)
        assert metrics.distinct(kind, 2) == 2 / 5
        assert metrics.unique_share(kind) == 2 / 3
    assert metrics.unique_share(np.array([3, 4, 3, 3])) == 0.5
    assert metrics.unique_share(np.array([[1, 2], [1, 3], [1, 2]])) == 2 / 3
    draws = qr.Draws.from_arrays(np.zeros(3), np.full(3, -1.0), items=texts)
    assert metrics.distinct(draws) == 3 / 8


def test_samples_are_taken_as_they_come():
    table = qr.Table({"a b": 0.5, "a c": 0.5})
    samples = qr.QRS(table, table, beta=1.0).sample(50, seed=0)
    assert metrics.unique_share(samples) == 2 / 50
    assert metrics.self_bleu(samples, 2) == pytest.approx(1)
    assert metrics.moments(samples, qr.features.contains("c", name="c"))["c"].value == np.mean(
        [text == "a c" for text in samples.items]
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.self_bleu([]), "there is 0"),
        (lambda: metrics.self_bleu(["a b"]), "at least two"),
        (lambda: metrics.self_bleu(["a", "b"], n=0), "n is 0"),
        (lambda: metrics.self_bleu(["a", "b"], unit="token"), "unit is 'token'"),
        (lambda: metrics.self_bleu("a b"), "sequence of items"),
        (lambda: metrics.distinct([]), "none of the 0 texts has 1 word"),
        (lambda: metrics.distinct(["a b"], n=3), "has 3 words"),
        (lambda: metrics.distinct(["a"], n=1.5), "whole number"),
        (lambda: metrics.unique_share([]), "no samples"),
        (lambda: metrics.unique_share(qr.Draws.from_arrays([0.0], [0.0])), "have no items"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(qr.errors.InputError, match=message):
        call()


def test_lone_surrogates_and_other_planes_are_characters():
    assert code(["\ud800a", "\U0001f600"], "character")[1].tolist() == [2, 1]
    assert metrics.distinct(["\U0001f600a", "\U0001f600"], unit="character") == 2 / 3
    assert math.isclose(metrics.self_bleu(["\ud800"] * 2, 1, "character"), 1.0)
