"""Wrong values in place of right ones: a QuasirError or an answer, never an error from inside."""

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quasir as qr

from .odd_values import CALLS, ODD


def call(name, odd):
    """Call with some arguments replaced; anything but an answer or a QuasirError is raised."""
    function, right = CALLS[name]
    given_arguments = {**right, **{argument: ODD[value]() for argument, value in odd.items()}}
    message = None
    try:
        function(**given_arguments)
    except (qr.errors.QuasirError, qr.errors.QuasirWarning) as error:
        message = str(error)
    # A message says something, in a few lines at most.
    assert message is None or 10 < len(message) < 2000


@pytest.mark.parametrize("name", CALLS)
def test_the_right_arguments_work(name):
    function, right = CALLS[name]
    function(**right)


@st.composite
def cases(draw):
    name = draw(st.sampled_from(sorted(CALLS)))
    arguments = draw(
        st.lists(st.sampled_from(sorted(CALLS[name][1])), min_size=1, max_size=3, unique=True)
    )
    return name, {argument: draw(st.sampled_from(sorted(ODD))) for argument in arguments}


@pytest.mark.parametrize("count", [300, pytest.param(3000, marks=pytest.mark.slow)])
def test_odd_values_are_refused_or_answered(count):
    settings(max_examples=count)(given(cases())(lambda case: call(*case)))()


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_every_odd_value_for_every_argument(name):
    for argument in CALLS[name][1]:
        for value in ODD:
            call(name, {argument: value})


def test_the_fuzzer_sees_an_error_from_inside(monkeypatch):
    monkeypatch.setitem(CALLS, "broken", (lambda x: x + 1, {"x": 1}))
    with pytest.raises(TypeError):
        call("broken", {"x": '"ab"'})
    monkeypatch.setitem(CALLS, "warns", (lambda x: warnings.warn("a", stacklevel=1), {"x": 1}))
    with pytest.raises(UserWarning):
        call("warns", {"x": '"ab"'})
