"""The layers of the package: each imports only what lies below it."""

import ast
from pathlib import Path

import pytest

import quasir

SOURCE = Path(quasir.__file__).parent

LAYERS = (
    "errors",
    "core",
    "store",
    "engines",
    "targets",
    "features",
    "proposals",
    "draws",
    "estimation",
    "certificates",
    "constraints",
    "samplers",
    "guides",
    "text",
    "metrics",
    "tuning",
    "recipes",
    "report",
    "runs",
    "compare",
    "cli",
)
"""From the bottom up, as in docs/architecture.md."""


def imported(path):
    """Yield (line, package) of every import of quasir in a file, late ones included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} is a relative import"
            parts = (node.module or "").split(".")
            if parts[0] == "quasir":
                for package in parts[1:2] or [alias.name for alias in node.names]:
                    yield node.lineno, package
        elif isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "quasir":
                    yield node.lineno, parts[1] if len(parts) > 1 else "quasir"


def upward(source, layers):
    """Return the imports that do not go down, in words."""
    height = {package: i for i, package in enumerate(layers)}
    wrong = []
    for path in sorted(source.rglob("*.py")):
        own = path.relative_to(source).parts[0].removesuffix(".py")
        if own in ("__init__", "__main__"):
            continue
        for line, package in imported(path):
            if package not in height or height[package] > height[own]:
                wrong.append(f"{path.relative_to(source)}:{line} imports {package}")
    return wrong


def test_no_module_imports_from_above():
    assert upward(SOURCE, LAYERS) == []


def test_the_top_level_holds_packages_and_errors_alone():
    files = sorted(path.name for path in SOURCE.iterdir() if path.is_file())
    assert files == ["__init__.py", "__main__.py", "errors.py", "py.typed"]
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages == set(LAYERS) - {"errors"}


@pytest.mark.parametrize(
    "line",
    [
        "from quasir.cli.main import app",
        "def f():\n    from quasir.runs import run",
        "import quasir.cli",
        "from quasir import cli",
        "import quasir as qr",
    ],
)
def test_an_upward_import_is_found(tmp_path, line):
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "wrong.py").write_text(f"{line}\n")
    assert len(upward(tmp_path, LAYERS)) == 1


def test_a_downward_import_is_fine(tmp_path):
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "right.py").write_text("from quasir.core.items import take\n")
    assert upward(tmp_path, LAYERS) == []
