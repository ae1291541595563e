"""Change the source, one operator or constant at a time, and see whether a test fails.

A mutant that no test finds is a hole in the tests, or the same program. The second kind is listed,
with its reason, in `tools/mutants-equivalent.txt`. Of the others at least 90 % must be killed.
The source and the tests are copied, so the working tree is never changed. A mutant first meets the
tests that run its line, the quick ones first; only one that they do not find meets all its tests.

    python tools/mutants.py --sample 150 --seed 17     a random sample; known results are kept
    python tools/mutants.py --again                    its survivors, after new tests
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet  # noqa: F401
import pytest
import scipy.stats  # noqa: F401
from covering import Recorder

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENT = ROOT / "tools" / "mutants-equivalent.txt"
RESULTS, ENOUGH = ROOT / "build" / "mutants.json", 0.9
NO_RESULT = max(pytest.ExitCode) + 1
"""The exit code of a child that did not come to its tests."""

NO_SHRINKING = """
from hypothesis import HealthCheck, Phase
settings.register_profile(
    "unshrunk",
    settings.default,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[*HealthCheck],
)
settings.load_profile("unshrunk")
"""
"""Added to the copy of tests/conftest.py: that an example fails is enough, and that it is slow says
nothing, since other processes may use the processor."""

BINNED = "estimation/test_bins estimation/test_streaming certificates draws/test_ceiling"
TAIL = "estimation/test_tail estimation/test_intervals estimation/test_bins "
TAIL += "certificates exact/test_laws draws/test_ceiling statistical/test_coverage"
SUMS = "exact/test_laws exact/test_formulas certificates estimation"
TESTS = {
    **dict.fromkeys(("estimation/summary", "estimation/bin"), BINNED),
    "estimation/intervals": TAIL,
    "estimation/": SUMS,
    "samplers/": "samplers exact/test_kernels exact/test_laws statistical/test_samplers "
    "statistical/test_chains",
    "constraints/": "constraints exact/test_constrain",
    "store/": "store draws/test_ceiling runs/test_stored",
    "draws/": "draws samplers exact/test_laws statistical/test_samplers",
    "certificates/choice": f"certificates exact/test_laws {BINNED}",
    "certificates/evaluator": f"certificates {SUMS} statistical/test_coverage",
    "core/streams": "core draws statistical/test_streams",
}
"""How the path of a changed file begins, and its tests, the quick ones first."""

OPERATORS: dict[type[ast.AST], tuple[str, ...]] = {
    **{ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*")},
    **{ast.Mod: ("%", "*"), ast.FloorDiv: ("//", "*"), ast.Pow: ("**", "*"), ast.Eq: ("==", "!=")},
    **{ast.Lt: ("<", "<=", ">="), ast.LtE: ("<=", "<", ">"), ast.NotEq: ("!=", "==")},
    **{ast.Gt: (">", ">=", "<="), ast.GtE: (">=", ">", "<"), ast.USub: ("-", "")},
    **{ast.And: ("and", "or"), ast.Or: ("or", "and"), ast.Not: ("not ", "")},
}
"""Each operator, and what it becomes; a comparison becomes its neighbour, and its opposite."""
NAMES = {"min": "max", "minimum": "maximum", "low": "high", "floor": "ceil", "any": "all"}
NAMES |= {new: old for old, new in NAMES.items()}


@dataclass(frozen=True)
class Mutant:
    """One change: the line `before` becomes `after`, and the whole file `text`."""

    file: str
    line: int
    before: str
    after: str
    text: bytes

    @property
    def key(self) -> str:
        """The change without its line number, so that it is known when lines move."""
        return f"{self.file}\n- {self.before}\n+ {self.after}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.before}\n{'':9}becomes {self.after}"


def parts_of(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and those inside it, without messages, assertions, decorators and types."""
    match node:
        case ast.JoinedStr() | ast.Assert() | ast.Raise() | ast.arg() | ast.keyword("stacklevel"):
            return
        case ast.Assign([ast.Name("__all__")]) | ast.AnnAssign(annotation=ast.Name("TypeAlias")):
            return
        case ast.AnnAssign(value=value):
            inside: list[ast.AST] = [value] if value else []
        case ast.FunctionDef(args=arguments, body=body):
            inside = [arguments, *body]
        case ast.ClassDef(body=body):
            inside = [*body]
        case _:
            inside = [*ast.iter_child_nodes(node)]
    yield node
    for part in inside:
        yield from parts_of(part)


def changes_of(text: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, new) for every change of a file: bytes start to end become new."""
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))

    def ends(node: Any) -> tuple[int, int]:
        last = lines[node.end_lineno - 1] + node.end_col_offset
        return lines[node.lineno - 1] + node.col_offset, last

    def between(begin: int, end: int, op: ast.AST) -> Iterator[tuple[int, int, str]]:
        old, *others = OPERATORS.get(type(op), ("",))
        at = text.index(old.encode(), begin, end)
        yield from ((at, at + len(old), new) for new in others)

    for node in parts_of(ast.parse(text)):
        match node:
            case ast.BinOp(left, op, right):
                yield from between(ends(left)[1], ends(right)[0], op)
            case ast.BoolOp(op, values):
                for left, right in pairwise(values):
                    yield from between(ends(left)[1], ends(right)[0], op)
            case ast.Compare(first, ops, others):
                for (left, right), test in zip(pairwise([first, *others]), ops, strict=True):
                    yield from between(ends(left)[1], ends(right)[0], test)
            case ast.UnaryOp(op):
                yield from between(*ends(node), op)
            case ast.Constant(bool() as truth):
                yield *ends(node), str(not truth)
            case ast.Constant(int() | float() as x):
                yield *ends(node), repr(x + 1 if isinstance(x, int) or x == 0 else 2 * x)
            case ast.Name(name, ast.Load()) | ast.Attribute(_, name, ast.Load()) if name in NAMES:
                end = ends(node)[1]
                yield end - len(name), end, NAMES[name]


def all_mutants(only: str) -> list[Mutant]:
    """Return the mutants of the files whose path contains `only`."""
    files = {file for name in TESTS for file in ROOT.glob(f"src/quasir/{name}*.py")}
    found = []
    for file in sorted(str(file.relative_to(ROOT)) for file in files if only in str(file)):
        text = (ROOT / file).read_bytes()
        for start, end, new in sorted(changes_of(text)):
            changed = text[:start] + new.encode() + text[end:]
            line = text.count(b"\n", 0, start)
            old, new = (part.splitlines()[line].decode().strip() for part in (text, changed))
            found.append(Mutant(file, line + 1, old, new, changed))
    return found


def run(tree: Path, tests: list[str], limit: float, *plugins: object) -> str:
    """Run tests in the copied tree; once more if another process disturbed them."""
    result = run_once(tree, tests, limit, *plugins)
    if result.startswith("it "):
        result = run_once(tree, tests, limit, *plugins)
    if result.startswith("it "):
        sys.exit(f"no test decided about {tests[0]}: twice {result}. This result is not kept.")
    return result


def run_once(tree: Path, tests: list[str], limit: float, *plugins: object) -> str:
    """Return "survived", "killed", "timeout", "absent", or "it ..." where the tests did not decide.

    `limit` is in seconds of processor time. There is no hard limit, since that would end the tests
    by SIGKILL, as another process might: tests that ignore SIGXCPU run on until the alarm.
    """
    pid = os.fork()  # a child starts with the large libraries imported, but not quasir
    if pid == 0:
        try:
            hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit), hard))
            signal.alarm(math.ceil(20 * limit))  # for one that waits; others may use the processor
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a handler of the parent is not wanted
            os.setsid()  # a test that ends its own group of processes must not end this one
            os.dup2(os.dup2(os.open(os.devnull, os.O_WRONLY), 1), 2)
            os.chdir(tree)
            os.environ["PYTHONPATH"] = sys.path[0] = str(tree / "src")
            quick = [*"-x -q -p no:cacheprovider -m".split(), "not slow"]
            os._exit(pytest.main([*quick, *tests], plugins))
        finally:
            os._exit(NO_RESULT)
    frozen = False
    while os.WIFSTOPPED(status := os.waitpid(pid, os.WUNTRACED)[1]):
        frozen = True
    code = os.waitstatus_to_exitcode(status)
    if frozen:
        return "it was frozen by another process"
    if code in (-signal.SIGXCPU, -signal.SIGALRM):
        return "timeout"
    if code < 0 or code >= NO_RESULT:
        return f"it ended by {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"
    if code in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED):
        return "absent"  # these tests are not there: nothing was tested
    return "killed" if code else "survived"


def tests_of(file: str) -> list[str]:
    """Return the tests of a file: its doctests, and those in TESTS."""
    names = next(names for part, names in TESTS.items() if f"/{part}" in file)
    return [file, *(f"tests/{name}{'.py' * name.count('/')}" for name in names.split())]


def copy_of_the_tree(folder: str) -> Path:
    """Copy what mutants change, and link the rest."""
    tree = Path(folder)
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    with (tree / "tests" / "conftest.py").open("a") as conftest:
        conftest.write(NO_SHRINKING)
    for path in ROOT.iterdir():
        if path.name not in ("src", "tests", ".git", ".venv", "build"):
            (tree / path.name).symlink_to(path)
    return tree


def record(tree: Path, files: list[str]) -> dict[str, Any]:
    """Run all tests of these files without a mutant; return which tests run which lines."""
    out = tree / "covering.json"
    tests = sorted({test for file in files for test in tests_of(file)})
    if (result := run(tree, tests, 3600, Recorder(tree, out))) != "survived":
        sys.exit(f"without a mutant the tests end as {result}: {' '.join(tests)}")
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def result_of(tree: Path, mutant: Mutant, found: dict[str, Any]) -> str:
    """Run the tests of one mutant: those that run its line, then, if it is alive, all."""
    every = tests_of(mutant.file)
    seconds = {
        test: spent for test, spent in found["seconds"].items() if test.startswith(tuple(every))
    }
    limit = 20 + 2 * sum(seconds.values())
    lines = found["lines"].get(mutant.file, {})
    covering = [test for test in lines.get(str(mutant.line), []) if test in seconds]
    first = run(tree, covering, limit) if covering else "absent"
    return first if first in ("killed", "timeout") else run(tree, every, limit)


def test_mutants(mutants: list[Mutant], known: dict[str, str]) -> None:
    """Run the mutants that have no result yet; write each result as it comes."""
    if not mutants:
        return
    with tempfile.TemporaryDirectory() as folder:
        tree = copy_of_the_tree(folder)
        found = record(tree, [mutant.file for mutant in mutants])
        for i, mutant in enumerate(mutants):
            place = tree / mutant.file
            text = place.read_bytes()
            place.write_bytes(mutant.text)
            os.utime(place, (i, i))  # another time for each, or an old .pyc would be run
            known[mutant.key] = result_of(tree, mutant, found)
            place.write_bytes(text)
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps(known, indent=1))
            print(f"{known[mutant.key]:9}{mutant}", flush=True)


def main() -> int:
    """Run the command; return 1 if too few mutants are killed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sample", type=int, help="how many, at random (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--file", default="", help="only files whose path contains this")
    parser.add_argument("--list", action="store_true", help="show them, and run none")
    parser.add_argument(
        "--again", action="store_true", help="those with results; run the survivors again"
    )
    options = parser.parse_args()
    mutants = all_mutants(options.file)
    same = {part.strip().partition("\n= ")[0] for part in EQUIVALENT.read_text().split("\n\n")}
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if options.again:  # a sample would be another one where a line has changed
        mutants = [mutant for mutant in mutants if mutant.key in known]
    elif options.sample:
        random.Random(options.seed).shuffle(mutants)
        mutants = mutants[: options.sample]
    if options.list:
        print(*mutants, sep="\n")
        return 0
    finished = {key for key in known if not (options.again and known[key] == "survived")} | same
    test_mutants([m for m in mutants if m.key not in finished], known)
    for name in (*sorted({m.file.split("/")[2] for m in mutants}), ""):
        found = [m.key for m in mutants if f"src/quasir/{name}" in m.file]
        others = [known[key] for key in found if key not in same]
        alike, alive = len(found) - len(others), others.count("survived")
        share = 1 - alive / max(len(others), 1)
        print(
            f"{name or 'all':13}{len(found):5} mutants, {alike:4} equivalent, {alive:4} alive,"
            f"{share:7.1%} of the others killed"
        )
    return int(share < ENOUGH)


if __name__ == "__main__":
    sys.exit(main())
