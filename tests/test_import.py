"""What `import quasir` brings in, and what examples the documents guarantee."""

import inspect
import subprocess
import sys
import typing

import pytest

import quasir as qr

HEAVY = ["scipy.stats", "matplotlib", "pandas", "torch", "transformers", "pyarrow"]


@pytest.mark.parametrize(
    ("module", "heavy"),
    [("quasir", HEAVY), ("quasir.cli.main", ["matplotlib", "pandas", "torch", "transformers"])],
)
def test_import_is_light(module, heavy):
    code = f"import sys, {module}; print([m for m in {heavy!r} if m in sys.modules])"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert out.strip() == "[]"


def test_public_names_are_there():
    assert all(hasattr(qr, name) for name in qr.__all__)


def classes_in(hint):
    """Yield the classes of quasir that a type is made of."""
    if isinstance(hint, type) and hint.__module__.startswith("quasir"):
        yield hint
    for part in typing.get_args(hint):
        yield from classes_in(part)


def public_functions():
    """Yield every public function, and every public method of a public class."""
    for name in qr.__all__:
        thing = getattr(qr, name)
        if inspect.isfunction(thing):
            yield name, thing
        elif inspect.isclass(thing) and thing is not qr.Store:  # a handle; its rows are internal
            for method, function in vars(thing).items():
                if inspect.isfunction(function) and not method.startswith("_"):
                    yield f"{name}.{method}", function


def test_what_a_public_function_takes_or_returns_is_public():
    packages = [getattr(qr, name) for name in qr.__all__ if inspect.ismodule(getattr(qr, name))]
    named = [getattr(package, name) for package in packages for name in package.__all__]
    named += [getattr(qr, name) for name in qr.__all__]
    public = {thing for thing in named if inspect.isclass(thing)}
    hidden, seen = [], 0
    for name, function in public_functions():
        hints = typing.get_type_hints(function, localns={"Figure": object, "pa": object})
        for hint in hints.values():
            for found in classes_in(hint):
                seen += 1
                hidden += [f"{name}: {found.__qualname__}"] if found not in public else []
    assert hidden == []
    assert seen > 50


def test_errors_are_called_errors():
    errors = [getattr(qr, name) for name in qr.__all__]
    errors = [e for e in errors if inspect.isclass(e) and issubclass(e, Exception)]
    for error in errors:
        named = error.__name__.endswith(("Error", "Warning")) or error is qr.BudgetExceeded
        assert named
        assert issubclass(error, qr.QuasirError | UserWarning)
