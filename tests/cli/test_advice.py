"""Every command that is printed as advice works: each is produced for real, and run."""

import ast
import re
import shlex
from pathlib import Path

import pytest

import quasir as qr
from quasir.runs.pipeline import begin
from tests.cli.helpers import LETTERS, POISSONS, inside

SOURCE = Path(qr.__file__).parent


def advice_in(text):
    """Return the commands in a text: in backticks, or after "more: "."""
    text = " ".join(text.split())
    return re.findall(r"`(quasir [^`]+)`", text) + re.findall(r"more: (quasir .*)$", text)


def follow(command):
    """Run a command as a shell would read it, and see that it works."""
    _, *words = shlex.split(command)
    code, out, err = inside(*words)
    assert code == 0, f"{command}\n{err}"
    return out, err


def made(folder, recipe=POISSONS, command="run", *options):
    """Make a run in a folder whose name has a space; return the folder, stdout and stderr."""
    folder.mkdir(exist_ok=True)
    (folder / "r.yaml").write_text(recipe)
    code, out, err = inside(command, folder / "r.yaml", "--out", folder / "my run", *options)
    assert code == 0, err
    return folder / "my run", out, err


@pytest.mark.parametrize("wish", ["tvd: 0.05", "tvd: 1e-9", "kl: 1e-12", "acceptance_rate: 1"])
def test_the_hint_of_run_works_also_where_the_wish_could_not_be_met(tmp_path, wish):
    run, out, _ = made(tmp_path, POISSONS.replace("tvd: 0.05", wish))
    (command,) = advice_in(out)
    lines, err = follow(command)
    assert len(lines.splitlines()) == 1000
    beta = re.search(r"p_beta at beta = (\S+),", out)[1]
    assert f"at beta = {beta}" in err
    assert ("could not be met" in err) == ("could not be met" in out)
    assert run.is_dir()


def test_a_wish_on_the_command_line_is_still_an_error_where_it_cannot_be_met(tmp_path):
    run, *_ = made(tmp_path)
    code, _, err = inside("sample", run, "--tvd", "1e-9")
    assert code == 1
    assert "cannot be" in err


def test_too_few_samples(tmp_path):
    _, out, err = made(tmp_path, POISSONS.replace("samples: 100", "samples: 6000"))
    assert advice_in(err)[0].endswith("-n 6000")
    for command in {*advice_in(out), *advice_in(err)}:
        follow(command)


def test_advice_for_a_recipe_with_its_own_code(tmp_path):
    (tmp_path / "mine.py").write_text("def shout(text):\n    return text.isupper()\n")
    recipe = (
        'base: {table: {a: 3, A: 1}}\nfeatures: {loud: {python: "mine.py:shout"}}\n'
        "want: {loud: 1}\ndraws: 1024\nchoose: {beta: 1}\nsamples: 900\n"
    )
    _, out, err = made(tmp_path, recipe, "run", "--allow-code")
    commands = {*advice_in(out), *advice_in(err)}
    assert len(commands) == 2
    for command in commands:
        follow(command)


def test_a_run_without_draws(tmp_path):
    (tmp_path / "r.yaml").write_text(POISSONS)
    begin(str(tmp_path / "r.yaml"), tmp_path / "run")
    code, _, err = inside("tradeoff", tmp_path / "run")
    assert code == 1
    (command,) = advice_in(err)
    follow(command)
    assert inside("tradeoff", tmp_path / "run")[0] == 0


def test_a_damaged_run(tmp_path):
    (tmp_path / "r.yaml").write_text(LETTERS)
    assert inside("draw", tmp_path / "r.yaml", "--out", tmp_path / "run")[0] == 0
    shard = tmp_path / "run" / "draws" / "shard-00000.parquet"
    shard.write_bytes(shard.read_bytes()[:-1])
    code, _, err = inside("tradeoff", tmp_path / "run")
    assert code == 1
    (command,) = advice_in(err)
    assert command.endswith("--repair")
    follow(command)
    assert inside("tradeoff", tmp_path / "run")[0] == 0


def test_a_run_that_nobody_draws_any_more(tmp_path):
    run, *_ = made(tmp_path, POISSONS, "draw", "--draws", 2000)
    recipe = run / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("draws: 2000", "draws: 5000"))
    (run / ".lock").write_text(f"{2**22 - 1} on {__import__('socket').gethostname()}")
    code, _, err = inside("watch", run)
    assert code == 0
    (command,) = advice_in(err)
    follow(command)
    assert len(qr.open_run(run).store) == 5000


def test_saved_draws(tmp_path):
    qr.Draws.from_arrays([0.0] * 200, [-1.0] * 200).save(tmp_path / "my run")
    code, _, err = inside("report", tmp_path / "my run")
    assert code == 2
    (command,) = advice_in(err)
    follow(command)


def test_a_ceiling_can_be_asked_for(tmp_path):
    run, *_ = made(tmp_path, LETTERS.replace("tvd: 0.02", "tvd: 1e-9"))
    code, _, err = inside("sample", run, "--kl", "1e-9")
    if code:  # where no beta is enough, the message names one that is
        assert "ask for kl = 0" in err
        follow(shlex.join(["quasir", "sample", str(run), "-n", "10", "--kl", "0"]))


def test_the_report_of_a_bug():
    follow("quasir doctor")


KNOWN = {
    "cli/ending.py": 1,
    "cli/watch.py": 1,
    "compare/notes.py": 1,
    "runs/on_disk.py": 1,
    "runs/outcome.py": 1,
    "store/origin.py": 1,
    "store/store.py": 2,
}
"""Files with commands as advice -> how many. Those in which RUN stands for a folder are patterns
(notes.py, origin.py); all others are run above."""


def said_in(path):
    """Return the string literals of a file that are no docstrings and begin a command."""
    tree = ast.parse(path.read_text())
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docs
        and re.search(r"`(quasir [a-z]|$)", node.value)
        and not re.search(r"`[^`]+`$", node.value)
    ]


def test_no_advice_is_forgotten():
    """A new piece of advice must be added above, with a test that runs it."""
    found = {
        path.relative_to(SOURCE).as_posix(): len(said)
        for path in sorted(SOURCE.rglob("*.py"))
        if path.name != "help_page.py" and (said := said_in(path))
    }
    assert found == KNOWN
