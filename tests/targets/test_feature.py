import numpy as np
import pytest

import quasir as qr
from quasir.core.items import Coded, Strings


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
    with pytest.raises(qr.errors.FeatureError, match="gave 3, where a boolean is needed"):
        (~qr.Feature("length", len))(["abc"])


@pytest.mark.parametrize(
    ("function", "batched", "message"),
    [
        (lambda x: 1 / 0, False, "feature 'f' failed with ZeroDivisionError"),
        (lambda x: np.nan, False, "feature 'f' is nan for 2 of 2 items, the first being 'one'"),
        (lambda x: "yes", False, "texts, not numbers"),
        (lambda x: [1, 2, 3], True, r"shape \(3,\) for 2 items"),
        (lambda x: 1.0, True, "without batched=True"),
        (lambda x: [None, 1], True, "feature 'f'"),
        (lambda x: x.nothing, True, "a batch of 2 items beginning with 'one'"),
    ],
)
def test_broken_functions_are_named_and_the_item_is_shown(function, batched, message):
    with pytest.raises(qr.errors.FeatureError, match=message):
        qr.Feature("f", function, batched=batched)(["one", "two"])


def test_the_error_shows_the_item():
    with pytest.raises(qr.errors.FeatureError, match="on item 'two'"):
        qr.Feature("f", lambda x: 1 if x == "one" else int(x))(["one", "two"])
