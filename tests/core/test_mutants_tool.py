"""The tool that changes the source finds what it should change, and nothing else."""

import importlib.util
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "mutants.py"


@pytest.fixture(scope="module")
def mutants():
    spec = importlib.util.spec_from_file_location("mutants", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("line", "become"),
    [
        ("a + b", {"a - b"}),
        ("(β) ** 2", {"(β) * 2", "(β) ** 3"}),
        ("a < b <= c", {"a <= b <= c", "a >= b <= c", "a < b < c", "a < b > c"}),
        ("a and b", {"a or b"}),
        ("-(-a)", {"(-a)", "-(a)"}),
        ("not a", {"a"}),
        ("f(True, 0, 7, 0.0, 1.5)", {
            "f(False, 0, 7, 0.0, 1.5)", "f(True, 1, 7, 0.0, 1.5)", "f(True, 0, 8, 0.0, 1.5)",
            "f(True, 0, 7, 1.0, 1.5)", "f(True, 0, 7, 0.0, 3.0)",
        }),
        ("np.minimum(x.low, min)", {
            "np.maximum(x.low, min)", "np.minimum(x.high, min)", "np.minimum(x.low, max)",
        }),
        ("'a + b'", set()),
        ("raise E(f'{a + b}', 1)", set()),
        ("assert a < 1", set()),
        ("__all__ = [1]", set()),
        ("def f(x: L[1]) -> L[2]: ...", set()),
        ("def f(x: L[1] = 3) -> L[2]: ...", {"def f(x: L[1] = 4) -> L[2]: ..."}),
        ("x: L[1] = 5", {"x: L[1] = 6"}),
        ("x: L[1]", set()),
    ],
)  # fmt: skip
def test_what_a_line_may_become(mutants, line, become):
    text = line.encode()
    changed = [text[:a] + new.encode() + text[b:] for a, b, new in mutants.changes_of(text)]
    assert {new.decode() for new in changed} == become
    assert len(changed) == len(become)


def test_every_file_has_tests_that_exist(mutants):
    root = TOOL.parents[1]
    for part, names in mutants.TESTS.items():
        assert list((root / "src" / "quasir").glob(f"{part}*.py"))
        for name in names.split():
            assert (root / "tests" / f"{name}{'.py' * name.count('/')}").exists()


def test_every_equivalent_mutant_has_a_reason(mutants):
    _, *entries = mutants.EQUIVALENT.read_text().strip().split("\n\n")
    for entry in entries:
        file, before, after, *reason = entry.split("\n")
        assert (TOOL.parents[1] / file).is_file()
        assert before.startswith("- ")
        assert after.startswith("+ ")
        assert reason
        assert reason[0].startswith("= ")
