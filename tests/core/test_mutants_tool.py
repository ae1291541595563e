"""The tool that changes the source finds what it should change, and nothing else."""

import importlib.util
import json
import shutil
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
    "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\n    while True: pass": "timeout",
    "time.sleep(60)": "timeout",
}
"""What a test does, and how that counts."""

OUTSIDE = {
    "os.kill(os.getpid(), signal.SIGKILL)": "SIGKILL",
    "os.kill(os.getpid(), signal.SIGTERM)": "SIGTERM",
    "os._exit(70)": "exit code 70",
}
"""What looks like the hand of another process, and how it is called."""


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


def test_tests_that_are_not_there_decide_nothing(mutants, tmp_path):
    tree, _, limit = tree_with(tmp_path, "assert False")
    assert mutants.run(tree, ["tests/one/test_it.py::test_other"], limit) == "absent"


@pytest.mark.parametrize("body", OUTSIDE)
def test_an_end_from_outside_is_no_result(mutants, tmp_path, body):
    with pytest.raises(SystemExit, match=f"twice it ended by {OUTSIDE[body]}"):
        mutants.run(*tree_with(tmp_path, body))


@pytest.mark.parametrize(
    ("body", "then", "result"),
    [
        *((body, "pass", "survived") for body in OUTSIDE),
        (*[*OUTSIDE][:1], "assert False", "killed"),
    ],
)
def test_after_one_end_from_outside_the_tests_run_again(mutants, tmp_path, body, then, result):
    first = f"seen = Path({str(tmp_path / 'seen')!r})\n    if not seen.exists():\n        "
    again = f"{first}seen.touch()\n        {body}\n    {then}"
    assert mutants.run(*tree_with(tmp_path, again)) == result


def test_what_was_frozen_is_no_result(mutants, tmp_path):
    body = "if not os.fork():\n        time.sleep(0.2)\n"
    body += "        os.kill(os.getppid(), signal.SIGCONT)\n        os._exit(0)\n"
    body += "    os.kill(os.getpid(), signal.SIGSTOP)"
    with pytest.raises(SystemExit, match="twice it was frozen by another process"):
        mutants.run(*tree_with(tmp_path, body))


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


def test_the_tests_that_run_a_line_come_first_and_then_all(mutants, tmp_path, monkeypatch):
    tree, every, _ = tree_with(tmp_path, "import half\n    assert half.half(4) == 2")
    (tree / "src" / "half.py").write_text("def half(x):\n    return x / 2\n\n\nLEFT = 1\n")
    monkeypatch.setattr(mutants, "tests_of", lambda file: [file, *every])
    (tree / "tests" / "one" / "test_slow.py").write_text(
        "import half\n\n\ndef test_left():\n    assert half.LEFT == 1\n"
    )
    found = mutants.record(tree, ["src/half.py"])
    by_line = found["lines"]["src/half.py"]
    assert by_line["2"] == ["tests/one/test_it.py::test_it"]
    ran, run = [], mutants.run
    monkeypatch.setattr(mutants, "run", lambda *a: ran.append(a[1]) or run(*a))

    def result(line, old, new):
        text = (tree / "src" / "half.py").read_text()
        mutant = mutants.Mutant("src/half.py", line, old, new, b"")
        (tree / "src" / "half.py").write_text(text.replace(old, new))
        shutil.rmtree(tree / "src" / "__pycache__", ignore_errors=True)
        try:
            return mutants.result_of(tree, mutant, found)
        finally:
            (tree / "src" / "half.py").write_text(text)

    assert result(2, "x / 2", "x * 2") == "killed"
    assert ran == [["tests/one/test_it.py::test_it"]]
    assert result(2, "x / 2", "x // 2") == "survived"
    assert ran[2] == ["src/half.py", *every]  # the recorded test did not find it, nor did all
    assert result(5, "LEFT = 1", "LEFT = 2") == "killed"  # read by no recorded line
