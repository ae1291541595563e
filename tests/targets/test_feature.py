"""Features: what they are asked, how they combine, and what they refuse."""

from itertools import product

import numpy as np
import pytest

import quasir as qr
from quasir.core.items import Coded, Strings
from quasir.features import female, science, sports

A, B = (qr.Feature(letter, lambda x, letter=letter: letter in x) for letter in "ab")
ITEMS = ["", "a", "b", "ab"]
BASE = qr.Table({item: 0.25 for item in ITEMS})


def test_the_truth_tables():
    assert (A & B)(ITEMS).tolist() == [False, False, False, True]
    assert (A | B)(ITEMS).tolist() == [False, True, True, True]
    assert (~A)(ITEMS).tolist() == [True, False, True, False]
    assert (~(A | B))(ITEMS).tolist() == (~A & ~B)(ITEMS).tolist()
    assert (A & B)([]).tolist() == []


def test_the_names():
    assert (science & female).name == "science and female"
    assert (science | ~female).name == "science or not female"
    assert (science & female & sports).name == "science and female and sports"
    assert (science & female | sports).name == "(science and female) or sports"
    assert (science & (female | sports)).name == "science and (female or sports)"
    assert (~(science & female)).name == "not (science and female)"
    assert (~science & female).name == "not science and female"


def test_the_spans_are_those_of_both():
    text = "She is a chemist."
    assert (science & female).spans(text) == [(0, 3), (9, 16)]
    assert (science | ~female).spans(text) == [(9, 16)]
    assert (~female).spans is None
    overlapping = qr.features.contains("chem") & qr.features.contains("emist")
    assert overlapping.spans(text) == [(9, 16)]


@pytest.mark.parametrize("order", [0, 1])
def test_an_expensive_one_is_asked_only_where_it_decides(order):
    asked = []

    def slow(items):
        asked.extend(items)
        return ["b" in item for item in items]

    dear = qr.Feature("dear", slow, batched=True, expensive=True)
    for how, want, wanted in (
        ("and", ["a", "ab"], [False, False, False, True]),
        ("or", ["", "b"], [False, True, True, True]),
    ):
        pair = (A, dear) if order else (dear, A)
        both = pair[0] & pair[1] if how == "and" else pair[0] | pair[1]
        asked.clear()
        assert both.expensive
        assert both(ITEMS).tolist() == wanted
        assert asked == want
    assert not (A & B).expensive


def test_numbers_are_refused():
    length = qr.Feature("length", len)
    for f in (A & length, length & A, A | length, ~length):
        with pytest.raises(qr.errors.FeatureError, match="where a boolean is needed"):
            f(ITEMS)
    zero_or_one = qr.Feature("number", lambda x: float("b" in x))
    assert (A & zero_or_one)(ITEMS).tolist() == [False, False, False, True]


@pytest.mark.parametrize("other", [3, "b", None, len, True])
def test_only_features_combine(other):
    for combine in (lambda: A & other, lambda: A | other):
        with pytest.raises(TypeError):
            combine()


def test_python_words_do_not_choose_in_silence():
    for combine in (lambda: A and B, lambda: A or B, lambda: not A):
        with pytest.raises(qr.errors.InputError, match="f & g"):
            combine()


def test_a_base_times_combinations():
    target = BASE * (A | B) * ~(A & B)
    assert np.exp(target.log_score(ITEMS)).tolist() == [0.0, 0.25, 0.25, 0.0]
    # Made twice in the same way, it is the same feature; the parts may be used as well.
    again = (BASE * (A & B) * A).watch(A & B, B)
    draws = qr.draw(again, BASE, 100, seed=0)
    assert set(draws.features) == {"a and b", "a", "b"}
    tilted = BASE * qr.tilt(A & B, 1.0) * qr.tilt(A & B, 2.0)
    assert tilted.log_score(["ab"])[0] == pytest.approx(np.log(0.25) + 3)


def test_two_different_features_of_one_name_are_still_refused():
    other = qr.Feature("a", lambda x: True)
    for f, g in product((A, A & B, ~A), repeat=2):
        if f is not g:
            continue
        twin = {"a": other, "a and b": other & B, "not a": ~other}[f.name]
        with pytest.raises(qr.errors.InputError, match="two different features"):
            BASE * f * twin


def test_a_feature_of_a_coded_column_is_asked_once_an_item():
    asked = []
    feature = qr.Feature("f", lambda x: asked.append(x) or x == "a")
    column = Coded(("a", "b"), np.zeros(1000, dtype=int))
    assert feature(column).all()
    assert asked == ["a", "b"]
    assert feature(Strings.of(["a", "b"])).tolist() == [True, False]


@pytest.mark.parametrize(
    ("function", "batched", "message"),
    [
        (lambda x: 1 / 0, False, "feature 'f' failed with ZeroDivisionError"),
        (lambda x: np.nan, False, "feature 'f' is nan for 2 of 2 items, the first being 'one'"),
        (lambda x: "yes", False, "but must be numbers"),
        (lambda x: [1, 2, 3], True, r"shape \(3,\) for 2 items"),
        (lambda x: 1.0, True, "without batched=True"),
        (lambda x: [None, 1], True, "feature 'f'"),
        (lambda x: x.nothing, True, "on item 'one'"),
        (lambda x: [1 / (one != "two") for one in x], True, "on item 'two'"),
        (lambda x: 1 / (len(x) < 2), True, "none alone, but a batch of 2 items"),
    ],
)
def test_broken_functions_are_named_and_the_item_is_shown(function, batched, message):
    with pytest.raises(qr.errors.FeatureError, match=message):
        qr.Feature("f", function, batched=batched)(["one", "two"])
