import sys
import types

import numpy as np
import pytest

import quasir as qr
from quasir.core.items import Coded, Strings


def test_contains_regex_and_words():
    texts = ["An AMAZING thing", "amazingly so", "nothing"]
    assert qr.features.contains("amazing")(texts).tolist() == [False, True, False]
    assert qr.features.contains("amazing", case=False)(texts).tolist() == [True, True, False]
    assert qr.features.regex("^An?")(texts).tolist() == [True, False, False]
    assert qr.features.words(["amazing"], name="a")(texts).tolist() == [True, False, False]
    whole = qr.features.words([" C++ ", "New York"], name="odd", case=True)
    assert whole(["I like C++.", "C++x", "(New York)", "new york"]).tolist() == [
        True,
        False,
        True,
        False,
    ]
    assert qr.features.contains("a.c")(["abc", "a.c"]).tolist() == [False, True]


def test_the_papers_features():
    texts = [
        "Ada (born 1815) was an English Philosopher. She wrote.",
        "He is a retired footballer; his sister is a student.",
        "A philosopher-king and his her and her.",
    ]
    assert qr.features.science(texts).tolist() == [True, True, True]
    assert qr.features.sports(texts).tolist() == [False, True, False]
    assert qr.features.female(texts).tolist() == [True, False, True]
    lower = qr.features.pronouns("female", case="lower")
    assert lower(texts).tolist() == [False, False, True]
    assert qr.features.pronouns("male")(texts).tolist() == [False, True, False]
    assert qr.features.female(["Sheila heard there"]).tolist() == [False]
    assert len(qr.features.SCIENCE) == 10
    assert len(qr.features.SPORTS) == 9


def test_spans_show_what_fired():
    text = "She met her, the chemist."
    assert [text[a:b] for a, b in qr.features.female.spans(text)] == ["She", "her"]
    assert [text[a:b] for a, b in qr.features.science.spans(text)] == ["chemist"]


def test_length():
    assert qr.features.length()(["a b c", ""]).tolist() == [3, 0]
    assert qr.features.length("characters")(["été"]).tolist() == [3]

    class Text:
        text, token_ids = "two words", [1, 2, 3]

    assert qr.features.length("tokens")([Text()]).tolist() == [3]
    assert qr.features.length()([Text()]).tolist() == [2]
    with pytest.raises(qr.FeatureError, match="token_ids"):
        qr.features.length("tokens")(["a"])


def test_similarity_with_an_embedding_of_ones_own():
    calls = []

    def embed(texts):
        calls.append(len(texts))
        return [[text.count("a"), text.count("b")] for text in texts]

    near = qr.features.similarity("ab", above=0.95, embed=embed)
    assert near(["ba", "aab", "a", ""]).tolist() == [True, False, False, False]
    assert near.expensive
    assert calls == [1, 4]
    cosine = qr.features.similarity("ab", embed=embed)(["a"])
    assert cosine == pytest.approx([np.sqrt(0.5)])
    with pytest.raises(qr.InputError, match="cosine"):
        qr.features.similarity("ab", above=2)


def test_similarity_says_what_its_default_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)  # as if not installed
    with pytest.raises(qr.FeatureError, match="sentence-transformers"):
        qr.features.similarity("ab")(["a"])


def test_similarity_asks_the_papers_model_by_default(monkeypatch):
    asked = []

    class Model:
        def __init__(self, name):
            asked.append(name)

        def encode(self, texts, **_):
            return np.array([[text.count("a"), text.count("b")] for text in texts])

    module = types.SimpleNamespace(SentenceTransformer=Model)
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    near = qr.features.similarity("ab", above=0.95)
    assert asked == []  # not before it is needed
    assert near(["ba", "a"]).tolist() == [True, False]
    assert near(["ab"]).tolist() == [True]
    assert asked == ["sentence-transformers/all-mpnet-base-v2"]


def test_a_feature_of_a_coded_column_is_asked_once_an_item():
    asked = []
    feature = qr.Feature("f", lambda x: asked.append(x) or x == "a")
    column = Coded(("a", "b"), np.zeros(1000, dtype=int))
    assert feature(column).all()
    assert asked == ["a", "b"]
    assert feature(Strings.of(["a", "b"])).tolist() == [True, False]


def test_negation():
    no = ~qr.features.contains("a", name="a")
    assert no.name == "not a"
    assert no(["a", "b"]).tolist() == [False, True]
    with pytest.raises(qr.FeatureError, match="gave 3, where a boolean is needed"):
        (~qr.Feature("length", len))(["abc"])


@pytest.mark.parametrize(
    ("function", "batched", "message"),
    [
        (lambda x: 1 / 0, False, "feature 'f' failed with ZeroDivisionError"),
        (lambda x: np.nan, False, "feature 'f' is nan for 2 of 2 items, the first being 'one'"),
        (lambda x: "yes", False, "no number"),
        (lambda x: [1, 2, 3], True, r"shape \(3,\) for 2 items"),
        (lambda x: 1.0, True, "without batched=True"),
        (lambda x: [None, 1], True, "feature 'f'"),
        (lambda x: x.nothing, True, "a batch of 2 items beginning with 'one'"),
    ],
)
def test_broken_functions_are_named_and_the_item_is_shown(function, batched, message):
    with pytest.raises(qr.FeatureError, match=message):
        qr.Feature("f", function, batched=batched)(["one", "two"])


def test_the_error_shows_the_item():
    with pytest.raises(qr.FeatureError, match="on item 'two'"):
        qr.Feature("f", lambda x: 1 if x == "one" else int(x))(["one", "two"])


@pytest.mark.parametrize(
    "make",
    [
        lambda: qr.Feature("", len),
        lambda: qr.Feature("f", 3),
        lambda: qr.features.contains(""),
        lambda: qr.features.regex("("),
        lambda: qr.features.words([], name="none"),
        lambda: qr.features.words(["a", " "], name="blank"),
        lambda: qr.features.pronouns("other"),
        lambda: qr.features.pronouns("female", case="upper"),
        lambda: qr.features.length("pages"),
    ],
)
def test_features_that_cannot_be_made(make):
    with pytest.raises(qr.InputError):
        make()


def test_no_items():
    assert len(qr.features.female([])) == 0
    assert len(qr.Feature("f", lambda x: np.zeros(len(x)), batched=True)([])) == 0
