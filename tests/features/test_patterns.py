"""Patterns that never end are stopped; all others find what `re` finds."""

import re
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import quasir as qr
from quasir import recipes
from quasir.features import patterns
from quasir.recipes.building import build

ENDLESS = [
    (r"(.*?,){20}P", "1," * 40),
    (r"(\w)(.*)(.*)(.*)\1x", "abc" * 3000 + "yx"),
    (r".*.*.*.*[xy]z", "xa" * 300_000 + "z"),
    (r"(?=(.+)+)\d.*.*.*.*\d\d", "1" + "a" * 300_000),
]
SOON = [
    (r"(a+)+b", "a" * 60),
    (r"(a|a)*b", "a" * 60),
    (r"(a|ab?)*c", "a" * 80),
    (r"(?:a?){30}a{30}b", "a" * 45),
    (r".*.*.*.*.*x", "a" * 3000),
    (r"(?=(a+)+b)", "a" * 60),
    (r"^(\w+\s?)*$", "a" * 60 + "!"),
    (r"\w+x", "a" * 1_000_000),
]
"""Endless for `re`, and not found."""


@pytest.mark.parametrize(("pattern", "text"), ENDLESS)
def test_the_feature_and_the_item_are_named(pattern, text, monkeypatch):
    monkeypatch.setattr(patterns, "LIMIT", 0.1)
    feature = qr.features.search(pattern, name="endless")
    assert len(feature(["b", "xc"])) == 2
    with pytest.raises(qr.errors.FeatureError) as caught:
        feature(["b", text, "b"])
    message = str(caught.value)
    assert "feature 'endless' searched for about 0.1 s" in message
    assert f"of {len(text):,} characters" in message
    assert repr(text[:20])[:-1] in message
    assert feature(["b"]).shape == (1,)  # and it works on
    assert feature.spans(text) == []


@pytest.mark.parametrize(("pattern", "text"), SOON)
def test_what_never_ends_in_re_may_end_here(pattern, text):
    assert qr.features.search(pattern)(["b", text]).tolist()[1] is False


ATOMS = r"""
a b \w \d \s \b . [ab] [^a] ^ $ { {e} {name} } {} {s<=1} \{ \. [{] é (?:ab|c) (a) (?=b) (?<!a) |
"""
atoms = st.sampled_from(ATOMS.split())
repeats = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,2}", "{,2}", "*?"])
made = st.lists(st.tuples(atoms, repeats), min_size=1, max_size=5).map(
    lambda parts: "".join(atom + repeat for atom, repeat in parts)
)


@given(
    made, st.lists(st.text("abc 1{}es<=né.nam", max_size=8), min_size=3, max_size=8), st.booleans()
)
def test_what_is_found_is_what_re_finds(pattern, texts, case):
    try:
        compiled = re.compile(pattern, 0 if case else re.IGNORECASE)
    except re.error:
        with pytest.raises(qr.errors.InputError, match="not a regular expression"):
            qr.features.search(pattern)
        return
    texts = [*texts, "a{e}b", "{name}", "x{s<=1}"]
    feature = qr.features.search(pattern, name="f", case=case)
    assert feature(texts).tolist() == [compiled.search(text) is not None for text in texts]
    for text in texts:
        places = [match.span() for match in compiled.finditer(text) if match.end() > match.start()]
        assert feature.spans(text) == places


def test_words_are_found_by_re_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "regex", None)  # as if it were not installed
    many = [f"word{i}" for i in range(2000)]
    assert qr.features.words(many, name="w")(["a word7", "x" * 5000]).tolist() == [True, False]
    assert qr.features.contains("(a+)+b")(["(a+)+b", "b" * 100_000]).tolist() == [True, False]
    assert qr.features.science(["x" * 100_000]).tolist() == [False]


@pytest.mark.parametrize(
    "pattern", ["(", "a{99999999999999999999}", "(" * 5000, "*", 3, None, b"a"]
)
def test_patterns_that_are_none(pattern):
    with pytest.raises(qr.errors.InputError):
        qr.features.search(pattern)


def test_a_bracket_in_a_set_is_no_warning():
    assert qr.features.search("[[a]")(["["]).tolist() == [True]


def test_in_a_recipe(tmp_path, monkeypatch):
    monkeypatch.setattr(patterns, "LIMIT", 0.1)
    text = f"base: {{table: {{'{'1,' * 40}': 1}}}}\nfeatures: {{f: {{search: '(.*?,){{20}}P'}}}}\n"
    built = build(recipes.parse(text, "x.yaml"), tmp_path)
    with pytest.raises(qr.errors.FeatureError, match="feature 'f' searched"):
        built.features["f"](built.base.sample(3, np.random.default_rng(0)).items)
