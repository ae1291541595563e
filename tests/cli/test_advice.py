"""Every command that is printed as advice works: each is produced for real, and run."""

import ast
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import quasir as qr
from quasir.core import formatting
from quasir.runs.active_run import begin, prepare
from quasir.store.manifest import seal_of
from tests.cli.helpers import POISSONS, advice_in, follow, inside

SOURCE = Path(qr.__file__).parent


def made(folder, recipe=POISSONS, command="run", *options):
    """Make a run in a folder whose name has a space; return the folder, stdout and stderr."""
    folder.mkdir(exist_ok=True)
    (folder / "r.yaml").write_text(recipe)
    code, out, err = inside(command, folder / "r.yaml", "--out", folder / "my run", *options)
    assert code == 0, err
    return folder / "my run", out, err


@pytest.mark.parametrize(
    "constraint", ["tvd: 0.05", "tvd: 1e-9", "kl: 1e-12", "acceptance_rate: 1"]
)
def test_the_hint_of_run_works_also_where_the_constraint_could_not_be_met(tmp_path, constraint):
    run, out, _ = made(tmp_path, POISSONS.replace("tvd: 0.05", constraint))
    (command,) = advice_in(out)
    lines, err = follow(command)
    assert len(lines.splitlines()) == 1000
    beta = re.search(r"p_beta at beta = (\S+),", out)[1]
    assert f"at beta = {beta}" in err
    assert ("could not be met" in err) == ("could not be met" in out)
    assert run.is_dir()


def test_too_few_samples(tmp_path):
    _, out, err = made(tmp_path, POISSONS.replace("samples: 100", "samples: 6000"))
    assert advice_in(err)[0].endswith("-n 6000")
    for command in {*advice_in(out), *advice_in(err)}:
        follow(command)


OWN_CODE = (
    'base: {table: {a: 3, A: 1}}\nfeatures: {loud: {python: "mine.py:shout"}}\n'
    "want: {loud: 1}\ndraws: 1024\nchoose: {beta: 1}\nsamples: 900\n"
)


def test_advice_for_a_recipe_with_its_own_code(tmp_path):
    (tmp_path / "mine.py").write_text("def shout(text):\n    return text.isupper()\n")
    _, out, err = made(tmp_path, OWN_CODE, "run", "--allow-code")
    commands = {*advice_in(out), *advice_in(err)}
    assert len(commands) == 2
    for command in commands:
        follow(command)


@pytest.fixture(params=[POISSONS, OWN_CODE], ids=["plain", "own code"])
def recipe(request, tmp_path):
    """Return a recipe in a folder, with the code that it needs."""
    (tmp_path / "mine.py").write_text("def shout(text):\n    return text.isupper()\n")
    (tmp_path / "r.yaml").write_text(request.param)
    return tmp_path / "r.yaml"


def advised(run):
    """See that a run cannot be estimated; return the one command that the message advises."""
    code, _, err = inside("tradeoff", run)
    assert code == 1
    (command,) = advice_in(err)
    return command


def damage(run):
    shard = run / "draws" / "shard-00000.parquet"
    shard.write_bytes(shard.read_bytes()[:-1])


def exchange(run):
    """Put a shard of another run in place of the first, and list it in the manifest."""
    other = run.parent / "other"
    assert (
        inside("draw", run.parent / "r.yaml", "--out", other, "--allow-code", "--seed", 1)[0] == 0
    )
    shutil.copytree(other / "draws", run / "draws", dirs_exist_ok=True)
    shards = json.loads((other / "manifest.json").read_text())["shards"]
    content = json.loads((run / "manifest.json").read_text()) | {"shards": shards}
    del content["sha256"]
    (run / "manifest.json").write_text(json.dumps(content | {"sha256": seal_of(content)}))


def test_a_run_without_draws(tmp_path, recipe):
    begin(prepare(str(recipe), tmp_path / "my run"), allow_code=True)
    follow(advised(tmp_path / "my run"))
    assert inside("tradeoff", tmp_path / "my run")[0] == 0


@pytest.mark.parametrize("harm", [damage, exchange])
def test_a_damaged_run(tmp_path, recipe, harm):
    run = tmp_path / "my run"
    assert inside("draw", recipe, "--out", run, "--allow-code")[0] == 0
    before = qr.Draws.load(run).log_p
    harm(run)
    command = advised(run)
    assert "--repair" in command
    follow(command)
    assert inside("tradeoff", run)[0] == 0
    np.testing.assert_array_equal(qr.Draws.load(run).log_p, before)


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


RARE = """\
base: {table: {a: 0.9999, b: 0.0001}}
features: {isb: {contains: b}}
lambda: {isb: 5}
draws: 4000
choose: {tvd: 1e-9}
samples: 300
"""
"""The ceiling of the ratios, e^5, is known, but draws that show it are rare."""


def test_a_ceiling_can_be_asked_for(tmp_path):
    run, *_ = made(tmp_path, RARE)
    code, _, err = inside("sample", run, "-n", 10, "--kl", "1e-9")
    assert code == 1
    assert "ask for kl = 0" in " ".join(err.split())
    lines, err = follow(formatting.command("sample", run, "-n", 10, "--kl", 0))
    assert len(lines.splitlines()) == 10
    assert "at beta = 148.4" in err


@pytest.mark.parametrize("line", ["doctor", "recipes", "models get smollm2"])
def test_commands_without_a_run(line):
    follow(f"quasir {line}")


KNOWN = {
    "cli/ending.py": 1,
    "cli/init.py": 1,
    "cli/run.py": 1,
    "cli/watch.py": 2,
    "cli/tune.py": 2,
    "runs/stored_run.py": 2,
    "recipes/building.py": 1,
    "recipes/explain.py": 1,  # marks around a name, no command
    "core/hub.py": 1,
    "text/loading.py": 2,
    "store/store.py": 1,
    "text/served.py": 1,
}
"""Files with commands as advice -> how many. Tests of `tune` run its own, and those that a search
for a proposal names."""


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
        if path.name != "main.py" and (said := said_in(path))
    }
    assert found == KNOWN
