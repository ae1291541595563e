"""Count what a reader must hold in their head: lines, modules, names, and two walks.

``python tools/size.py --walks`` prints a row for each count, with its limit where it has one, and
ends with exit code 1 if a count is above its limit. A walk is the set of modules of quasir in which
a function is called while one command or expression is evaluated; imports do not count. The walk of
``quasir run`` uses 2,048 draws in one process.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import io
import json
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Callable
from pathlib import Path
from types import FrameType

TOP = Path(__file__).resolve().parent.parent
TRADEOFF, RUN = "modules crossed by tradeoff(draws).at(...)", "modules crossed by quasir run"
LIMITS = {
    "lines in src": 26_000,
    "modules in src": 170,
    "lines in tests": 20_000,
    "names at the top": 45,
    TRADEOFF: 15,
    RUN: 60,
}


def tracked(pattern: str) -> list[Path]:
    """Return the files below the top that git tracks, and that exist."""
    found = subprocess.run(
        ["git", "ls-files", pattern], cwd=TOP, capture_output=True, text=True, check=True
    )
    return [TOP / name for name in found.stdout.split("\n") if name and (TOP / name).is_file()]


def docstring_lines(tree: ast.AST) -> int:
    """Return how many lines of a module are docstrings."""
    nodes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    total = 0
    for node in ast.walk(tree):
        body = node.body if isinstance(node, nodes) else []
        if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            if isinstance(body[0].value.value, str):
                total += (body[0].end_lineno or 0) - body[0].lineno + 1
    return total


def code_lines(path: Path) -> int:
    """Return how many lines of a file hold code: no docstring, comment or blank line."""
    skip = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    lines: set[int] = set()
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type not in skip and token.type not in (tokenize.ENCODING, tokenize.ENDMARKER):
                lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines) - docstring_lines(ast.parse(path.read_text()))


def crossed(walk: Callable[[], object]) -> list[str]:
    """Return the modules of quasir in which a function is called during the walk."""
    modules: set[str] = set()

    def see(frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            name = frame.f_globals.get("__name__", "")
            if name.startswith("quasir.") and not frame.f_code.co_name.startswith("<"):
                modules.add(name)

    sys.setprofile(see)
    try:
        walk()
    finally:
        sys.setprofile(None)
    return sorted(modules)


def tradeoff_walk() -> list[str]:
    """Return the modules that ``tradeoff(draws).at(tvd=0.1, confidence=0.95)`` crosses."""
    import quasir as qr

    base = qr.Table({"a": 0.7, "b": 0.2, "c": 0.1})
    draws = qr.draw(base * qr.Feature("not a", lambda x: x != "a"), base, 20_000, seed=0)
    qr.tradeoff(draws).at(tvd=0.1, confidence=0.95)  # what is imported late is imported now
    return crossed(lambda: qr.tradeoff(draws).at(tvd=0.1, confidence=0.95))


def run_walk() -> list[str]:
    """Return the modules that ``quasir run scientists`` crosses."""
    from quasir.cli import main

    def walk() -> None:
        quiet = io.StringIO()
        with (
            tempfile.TemporaryDirectory() as folder,
            contextlib.redirect_stdout(quiet),
            contextlib.redirect_stderr(quiet),
        ):
            arguments = ["run", "scientists", "--draws", "2048", "--out", f"{folder}/run"]
            sys.argv = ["quasir", *arguments]
            try:
                main()
            except SystemExit as end:
                if end.code:
                    raise

    return crossed(walk)


def main() -> int:
    """Print the counts; return 1 if one is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--walks", action="store_true", help="also trace the two walks (a minute)")
    parser.add_argument("--modules", action="store_true", help="with --walks: name the modules")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    source, tests = tracked("src/*.py"), tracked("tests/*.py")
    stems = collections.Counter(path.stem for path in source if path.stem != "__init__")

    def lines(paths: list[Path]) -> int:
        return sum(len(path.read_text().splitlines()) for path in paths)

    import quasir

    counts: dict[str, int] = {
        "lines in src": lines(source),
        "  of code": sum(map(code_lines, source)),
        "  of docstrings": sum(docstring_lines(ast.parse(path.read_text())) for path in source),
        "modules in src": len(source),
        "  of the same name as another": sum(n for n in stems.values() if n > 1),
        "  of more than 400 lines": sum(len(p.read_text().splitlines()) > 400 for p in source),
        "lines in tests": lines(tests),
        "names at the top": len(quasir.__all__),
    }
    walks = {TRADEOFF: tradeoff_walk(), RUN: run_walk()} if options.walks else {}
    counts |= {name: len(found) for name, found in walks.items()}
    above = {name for name, limit in LIMITS.items() if counts.get(name, 0) > limit}
    if options.json:
        print(json.dumps({**counts, "limits": LIMITS, "walks": walks}, indent=2))
    else:
        for name, count in counts.items():
            verdict = "above the limit of" if name in above else "met: at most"
            limit = f"  {verdict} {LIMITS[name]:,}" if name in LIMITS else ""
            print(f"{name:<46} {count:>7,}{limit}")
        for name, found in walks.items() if options.modules else ():
            print(f"\n{name}:", *found, sep="\n  ")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
