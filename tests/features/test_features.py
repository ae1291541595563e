import sys
import types

import numpy as np
import pytest

import quasir as qr


def test_contains_regex_and_words():
    texts = ["An AMAZING thing", "amazingly so", "nothing"]
    assert qr.features.contains("amazing")(texts).tolist() == [False, True, False]
    assert qr.features.contains("amazing", case=False)(texts).tolist() == [True, True, False]
    assert qr.features.search("^An?")(texts).tolist() == [True, False, False]
    assert qr.features.words(["amazing"], name="a")(texts).tolist() == [True, False, False]
    whole = qr.features.words([" C++ ", "New York"], name="odd", case=True)
    found = whole(["I like C++.", "C++x", "(New York)", "new york"])
    assert found.tolist() == [True, False, True, False]
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
    with pytest.raises(qr.errors.InputError, match="token_ids"):
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
    with pytest.raises(qr.errors.InputError, match="cosine"):
        qr.features.similarity("ab", above=2)


def test_similarity_says_what_its_default_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)  # as if not installed
    with pytest.raises(qr.errors.InputError, match="sentence-transformers"):
        qr.features.similarity("ab")(["a"])


def test_similarity_asks_the_papers_model_by_default(monkeypatch):
    asked = []

    class Model:
        def __init__(self, name, local_files_only):
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


@pytest.mark.parametrize(
    "make",
    [
        lambda: qr.Feature("", len),
        lambda: qr.Feature("f", 3),
        lambda: qr.features.contains(""),
        lambda: qr.features.search("("),
        lambda: qr.features.words([], name="none"),
        lambda: qr.features.words(["a", " "], name="blank"),
        lambda: qr.features.pronouns("other"),
        lambda: qr.features.pronouns("female", case="upper"),
        lambda: qr.features.length("pages"),
    ],
)
def test_features_that_cannot_be_made(make):
    with pytest.raises(qr.errors.InputError):
        make()


def test_no_items():
    assert len(qr.features.female([])) == 0
    assert len(qr.Feature("f", lambda x: np.zeros(len(x)), batched=True)([])) == 0
