"""Patterns that never end are stopped, and all others cost what they did."""

import math
import os
import re
import threading

import numpy as np
import pytest

import quasir as qr
from quasir import recipes
from quasir.features import cost, guarded
from quasir.features.patterns import _longest_affordable
from quasir.recipes.building import build

ENDLESS = [
    (r"(a+)+b", "a" * 60),
    (r"(a|a)*b", "a" * 60),
    (r"(a|ab?)*c", "a" * 80),
    (r"(?:a?){30}a{30}b", "a" * 45),
    (r".*.*.*.*.*x", "a" * 3000),
    (r"(?=(a+)+b)", "a" * 60),
    (r"^(\w+\s?)*$", "a" * 60 + "!"),
]


@pytest.mark.parametrize(("pattern", "text"), ENDLESS)
def test_the_feature_and_the_item_are_named(pattern, text):
    feature = qr.features.regex(pattern, name="endless")
    assert len(feature(["b", "xc"])) == 2
    with pytest.raises(qr.FeatureError) as caught:
        feature(["b", text, "b"])
    message = str(caught.value)
    assert "feature 'endless' searched for about 1 s" in message
    assert repr(text[:20])[:-1] in message
    assert feature(["b"]).shape == (1,)  # and it works on
    assert feature.spans(text) == []


@pytest.mark.parametrize("size", [100_000, 1_000_000])
def test_texts_in_which_the_engine_heeds_no_signal(size):
    feature = qr.features.regex(r"\w+x", name="long")
    with pytest.raises(qr.FeatureError, match=f"of {size:,} characters"):
        feature(["ax", "a" * size])
    assert feature(["ax"]).tolist() == [True]


def test_a_guarded_pattern_finds_what_it_would_find():
    pattern, texts = r"(?:\w+ )*(\w)\1", ["a bb", "ab c", "", "x yy zz"]
    feature = qr.features.regex(pattern, name="doubled")
    assert _longest_affordable(pattern, 0) == 0  # so it is guarded
    assert feature(texts).tolist() == [re.search(pattern, text) is not None for text in texts]
    assert feature.spans("x yy zz") == [m.span() for m in re.finditer(pattern, "x yy zz")]
    upper = qr.features.regex(r"(?:b+)+", name="b", case=False)
    assert upper(["ABB", "a"]).tolist() == [True, False]


def test_it_works_in_threads_and_after_a_fork():
    feature = qr.features.regex(r"(?:a+)+b", name="f")
    assert feature(["aab"]).tolist() == [True]
    answers = []
    threads = [
        threading.Thread(target=lambda texts=texts: answers.append(feature(texts).tolist()))
        for texts in (["aab", "a"], ["b", "ab"])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [[False, True], [True, False]]
    child = os.fork()
    if child == 0:
        os._exit(0 if feature(["aab", "a"]).tolist() == [True, False] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert feature(["aab"]).tolist() == [True]


def test_a_worker_that_was_killed_is_replaced():
    feature = qr.features.regex(r"(?:a+)+b", name="f")
    feature(["ab"])
    worker = guarded._workers[os.getpid()]
    worker.kill()
    worker.wait()
    assert feature(["ab"]).tolist() == [True]


@pytest.mark.parametrize(
    "pattern",
    [r"born (in )?\d{4}", r"\w+ist\b", r"^An?", "colou?r|gr[ae]y", r"\d{1,3}(,\d{3})?", r"a\.b"],
)
def test_ordinary_patterns_need_no_second_process(pattern):
    assert _longest_affordable(pattern, 0) >= 1000


def test_words_need_no_second_process(monkeypatch):
    monkeypatch.setattr(guarded, "_ask", None)
    many = [f"word{i}" for i in range(2000)]
    assert qr.features.words(many, name="w")(["a word7", "x" * 5000]).tolist() == [True, False]
    assert qr.features.contains("(a+)+b")(["(a+)+b", "b" * 100_000]).tolist() == [True, False]
    assert qr.features.science(["x" * 100_000]).tolist() == [False]


def test_the_bound_on_steps_is_one():
    """Ways counted by hand: a* can end at each of 11 places, from each of 11 places."""
    assert math.exp(cost.log_steps("a*", 0, 10)) == pytest.approx(11 * 12)
    assert math.exp(cost.log_steps("[ab]c|d", 0, 10)) == pytest.approx(11 * 2)
    assert math.exp(cost.log_steps("(a|bc){3}", 0, 10)) == pytest.approx(11 * 8)
    assert cost.log_steps("(a|bc)*", 0, 10) == math.inf
    assert cost.log_steps("(", 0, 10) == math.inf
    for pattern, text in ENDLESS:
        assert cost.log_steps(pattern, 0, len(text)) > cost.AFFORDABLE


@pytest.mark.parametrize(
    "pattern", ["(", "a{99999999999999999999}", "(" * 5000, "*", 3, None, b"a"]
)
def test_patterns_that_are_none(pattern):
    with pytest.raises(qr.InputError):
        qr.features.regex(pattern)


def test_a_bracket_in_a_set_is_no_warning():
    assert qr.features.regex("[[a]")(["["]).tolist() == [True]


def test_in_a_recipe(tmp_path):
    text = f"base: {{table: {{{'a' * 60}: 1}}}}\nfeatures: {{f: {{regex: (a+)+b}}}}\n"
    built = build(recipes.parse(text, "x.yaml"), tmp_path)
    with pytest.raises(qr.FeatureError, match="feature 'f' searched"):
        built.features["f"](built.base.sample(3, np.random.default_rng(0)).items)
