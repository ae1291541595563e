"""What `import quasir` brings in, and what examples the documents guarantee."""

import inspect
import subprocess
import sys
import typing

import quasir as qr

HEAVY = ["scipy.stats", "matplotlib", "pandas", "torch", "transformers", "pyarrow"]
HEAVY += ["arviz_base", "arviz_stats", "xarray", "nltk"]
OF_COMMANDS = ["matplotlib", "pandas", "torch", "transformers"]


def test_import_is_light():
    code = f"""
import sys, quasir
print([name for name in {HEAVY!r} if name in sys.modules])
import quasir.cli.main
print([name for name in {OF_COMMANDS!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "[]"]


PACKAGES = [getattr(qr, name) for name in qr.__all__ if inspect.ismodule(getattr(qr, name))]
PACKAGES += [qr.certificates, qr.proposals, qr.runs, qr.targets]
PUBLIC = {
    f"{package.__name__}.{name}": getattr(package, name)
    for package in (qr, *PACKAGES)
    for name in package.__all__
}
HOOKS = ("compile", "with_factors", "sample_together")
"""Methods that quasir calls, with types of its own, and a user does not."""


def test_the_top_shows_the_public_names_alone():
    assert dir(qr) == sorted(qr.__all__)
    assert all(hasattr(qr, name) for name in qr.__all__)
    assert len(qr.__all__) <= 45


def shows_no_example(thing):
    """Return whether this is a class or a function whose docstring has no example."""
    doc = thing.__doc__ or ""
    return (inspect.isclass(thing) or inspect.isfunction(thing)) and (
        "Examples\n" not in doc or ">>> " not in doc
    )


def test_each_public_name_has_an_example():
    """The tests of `src` run them. Errors share one; of `quasir.runs` the top has some."""
    lacking = [name for name, thing in PUBLIC.items() if shows_no_example(thing)]
    assert [n for n in lacking if not n.startswith(("quasir.runs.", "quasir.errors."))] == []
    assert shows_no_example(shows_no_example)
    assert not shows_no_example(qr.draw)


def classes_in(hint):
    """Yield the classes of quasir that a type is made of."""
    if isinstance(hint, type) and hint.__module__.startswith("quasir"):
        yield hint
    for part in typing.get_args(hint):
        yield from classes_in(part)


def public_functions():
    """Yield every public function, and every public method of a public class."""
    for name, thing in PUBLIC.items():
        if inspect.isfunction(thing):
            yield name, thing
        elif inspect.isclass(thing):
            for method, function in vars(thing).items():
                if inspect.isfunction(function) and not method.startswith(("_", *HOOKS)):
                    yield f"{name}.{method}", function


def test_what_a_public_function_takes_or_returns_is_public():
    public = {qr.store.Store, *(thing for thing in PUBLIC.values() if inspect.isclass(thing))}
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
    for name in qr.errors.__all__:
        assert name.endswith(("Error", "Warning")) or name == "BudgetExceeded"
        assert issubclass(getattr(qr.errors, name), qr.errors.QuasirError | UserWarning)
