import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import quasir as qr
from quasir.core.items import Coded, Strings, as_items, concatenate, take


@given(st.lists(st.text()), st.data())
def test_strings_are_kept_and_taken(texts, data):
    column = Strings.of(texts)
    assert list(column) == texts
    indices = data.draw(st.lists(st.integers(0, len(texts) - 1)) if texts else st.just([]))
    taken = column.take(np.array(indices, dtype=int))
    assert list(taken) == [texts[i] for i in indices]
    assert list(Strings.concatenate([column, taken])) == texts + [texts[i] for i in indices]


def test_strings_take_no_object_each():
    column = Strings.of(["abc"] * 100_000)
    assert column.buffer.nbytes + column.offsets.nbytes < 1_200_000
    assert column[-1] == "abc"
    with pytest.raises(IndexError):
        column[100_000]


def test_coded_columns_over_different_supports_join():
    a, b = Coded(("x", "y"), np.array([0, 1])), Coded(("z", "y"), np.array([0, 1]))
    assert list(concatenate([a, b])) == ["x", "y", "z", "y"]
    assert list(a[1:]) == ["y"]


def test_integers_stay_arrays_and_anything_else_is_kept():
    assert as_items([1, 2]).dtype.kind == "i"
    assert as_items([10**30, 1])[0] == 10**30
    assert as_items([(1, 2), (3, 4)])[1] == (3, 4)
    assert as_items([True, False]).dtype == object
    assert len(as_items([])) == 0
    mixed = concatenate([np.array([1]), Strings.of(["a"])])
    assert list(mixed) == [1, "a"]
    assert take(mixed, np.array([1]))[0] == "a"


def test_what_is_no_sequence_is_refused():
    for wrong in ("abc", 3, iter([1])):
        with pytest.raises(qr.errors.InputError, match="sequence of items"):
            as_items(wrong)


def test_draws_of_texts_are_columns():
    class Words:
        def sample(self, n, rng):
            return [f"word {i}" for i in rng.integers(0, 9, n)], np.full(n, -np.log(9))

        def log_prob(self, items):
            return np.full(len(items), -np.log(9))

    draws = qr.draw(lambda items: [-len(text) for text in items], Words(), 3000, seed=0)
    assert isinstance(draws.items, Strings)
    assert draws.items[0].startswith("word ")
    assert len(draws.items[:5]) == 5
