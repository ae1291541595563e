"""Every public name has an example in its docstring; the tests of `src` run it."""

import inspect

import pytest

import quasir
from tests.docs.test_site import MODULES


def without_example(module):
    """Return the public classes and functions of a module that show no example."""
    things = {name: getattr(module, name) for name in module.__all__}
    return [
        name
        for name, thing in things.items()
        if inspect.isclass(thing) or inspect.isfunction(thing)
        if "Examples\n" not in (doc := thing.__doc__ or "") or ">>> " not in doc
    ]


@pytest.mark.parametrize("name", ["", *MODULES])
def test_each_has_an_example(name):
    assert without_example(getattr(quasir, name) if name else quasir) == []


def test_one_without_is_found():
    class Module:
        __all__ = ("bare", "shown")

        @staticmethod
        def bare():
            """Return nothing."""

        @staticmethod
        def shown():
            """Return nothing.

            Examples
            --------
            >>> shown()
            """

    assert without_example(Module) == ["bare"]
