"""The tool that changes the source finds what it should change, and nothing else."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "mutants.py"


@pytest.fixture(scope="module")
def mutants():
    sys.path.insert(0, str(TOOL.parent))
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
        assert before.startswith("- ")
        lines = [line.strip() for line in (TOOL.parents[1] / file).read_text().splitlines()]
        assert before.removeprefix("- ") in lines
        assert after.startswith("+ ")
        assert reason
        assert reason[0].startswith("= ")


ENDS = {
    "pass": "survived",
    "assert False": "killed",
    "while True: pass": "timeout",
}
"""What a test does, and how that counts."""


def tree_with(folder, body, limit=60):
    """Return a folder with one test, which runs `body`."""
    (folder / "src").mkdir()
    (folder / "src" / "empty.py").touch()
    (folder / "tests" / "one").mkdir(parents=True)
    text = f"import os, signal, time\nfrom pathlib import Path\n\n\ndef test_it():\n    {body}\n"
    (folder / "tests" / "one" / "test_it.py").write_text(text)
    return folder, ["tests/one"], limit


@pytest.mark.parametrize("body", ENDS)
def test_how_the_tests_end_is_the_result(mutants, tmp_path, body):
    limit = 0.1 if ENDS[body] == "timeout" else 60
    assert mutants.run(*tree_with(tmp_path, body, limit)) == ENDS[body]


def test_survivors_are_run_again_and_no_others(mutants, tmp_path, monkeypatch, capsys):
    found = mutants.all_mutants("core/streams")
    kinds = ["survived", "killed", "timeout"]
    known = {found[i].key: kind for i, kind in enumerate(kinds)}
    monkeypatch.setattr(mutants, "RESULTS", tmp_path / "mutants.json")
    mutants.RESULTS.write_text(json.dumps(known))
    ran = []
    monkeypatch.setattr(mutants, "test_mutants", lambda some, _: ran.extend(some))
    monkeypatch.setattr(sys, "argv", ["mutants.py", "--again"])
    assert mutants.main() == 1  # one of three is alive
    assert [mutant.key for mutant in ran] == [found[0].key]
    assert "3 mutants,    0 equivalent,    1 alive,  66.7%" in capsys.readouterr().out
