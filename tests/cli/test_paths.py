"""Paths that cannot be used: words, a documented exit code, and nothing lost."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import quasir as qr
from quasir import recipes
from quasir.compare import compare_recipe
from quasir.core import files
from quasir.recipes import Recipe
from quasir.recipes.building import located
from quasir.runs.active_run import begin, prepare
from quasir.runs.tune import tune_recipe
from quasir.store import Store
from tests.cli.helpers import LETTERS, POISSONS, inside

NOT_ROOT = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"]
"""Root may write everywhere; without this capability it may not."""


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "r.yaml").write_text(POISSONS)
    return tmp_path / "r.yaml"


@pytest.mark.parametrize("command", ["run", "draw", "tune", "compare"])
@pytest.mark.parametrize("below", ["", "below", "far/below"])
def test_out_is_a_file(recipe, tmp_path, command, below):
    (tmp_path / "file").write_text("mine")
    code, _, err = inside(command, recipe, "--out", tmp_path / "file" / below)
    assert code == 2
    assert "cannot be the folder of a run" in err
    assert (tmp_path / "file").read_text() == "mine"
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    code, _, err = inside(command, recipe, "--out", link)
    assert code == 2


@pytest.mark.parametrize("name", ["a" * 5000, "a" * 300, "b/" * 3000, "c\0d"])
def test_a_name_that_no_folder_has(recipe, tmp_path, name):
    code, _, err = inside("run", recipe, "--out", tmp_path / name)
    assert code == 2
    assert "cannot be the folder of a run" in err or "embedded null byte" in err
    assert len(err) < 600
    with pytest.raises(qr.errors.InputError, match="cannot be the folder"):
        qr.run(str(recipe), out=tmp_path / name, progress=False)


NAMES = ["a" * 5000, "a" * 300, "b/" * 3000, "c\0d", "\ud800"]
IN_PYTHON = {
    "find": recipes.find,
    "read": lambda name: recipes.read(Path(name)),
    "run": lambda name: qr.run(name, progress=False),
    "run, out": lambda name: qr.run(TINY, out=name, progress=False),
    "open_run": qr.open_run,
    "tradeoff": qr.tradeoff,
    "tradeoff, stream": lambda name: qr.tradeoff(name, stream=True),
    "load": qr.Draws.load,
    "save": lambda name: qr.Draws.from_arrays([0.0], [-1.0]).save(name),
    "open": Store.open,
    "create": lambda name: Store.create(name, 0),
    "compare": lambda name: compare_recipe(name, ["qrs"], [0.1]),
    "compare, out": lambda name: compare_recipe("poissons", ["qrs"], [0.1], out=Path(name)),
    "tune": lambda name: tune_recipe(name, Path("tuned")),
    "tune, out": lambda name: tune_recipe("scientists", Path(name)),
}
TINY = {"base": {"table": {"a": 1}}, "draws": 10, "choose": {"beta": 1}, "samples": 1}


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
@pytest.mark.parametrize("call", IN_PYTHON)
def test_a_name_that_no_file_has_in_python(tmp_path, monkeypatch, call, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(qr.errors.QuasirError) as caught:
        IN_PYTHON[call](name)
    assert len(str(caught.value)) < 600
    assert not [path for path in tmp_path.rglob("*") if path.name not in ("tuned", ".lock")]


@pytest.mark.parametrize("name", NAMES[:4], ids=range(4))
def test_a_model_of_a_long_name_is_no_folder(name):
    assert located(Recipe(base=name), Path("here")).base.model == name


def test_a_mistyped_model_leaves_no_folder(recipe, tmp_path):
    recipe.write_text("base: quasir/biografies\n")
    code, _, err = inside("run", recipe, "--out", tmp_path / "new")
    assert code == 2
    assert "quasir/biografies" in err
    assert not (tmp_path / "new").exists()
    (tmp_path / "mine").mkdir()
    assert inside("run", recipe, "--out", tmp_path / "mine")[0] == 2
    assert (tmp_path / "mine").exists()  # it was there before


def test_a_folder_that_may_not_be_looked_into(tmp_path, monkeypatch):
    def refuse(self):
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "is_file", refuse)
    for look in (qr.open_run, qr.Draws.load, qr.run):
        with pytest.raises(
            qr.errors.InputError, match=r"run/\S+ cannot be read: Permission denied"
        ):
            look(tmp_path / "run")


def test_a_folder_that_cannot_be_made(recipe, tmp_path, monkeypatch):
    def refuse(self, *_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    code, _, err = inside("run", recipe, "--out", tmp_path / "run")
    assert code == 1
    assert "could not be written: No space left on device" in err
    assert "make room" in err


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS])
@pytest.mark.parametrize("written", range(8))
def test_a_disk_that_fills_up_at_any_file(recipe, tmp_path, monkeypatch, number, written):
    (tmp_path / "r.yaml").write_text(LETTERS)
    replace, calls = os.replace, []

    def fills(source, target):
        calls.append(target)
        if len(calls) > written:
            raise OSError(number, os.strerror(number))
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(files.os, "replace", fills)
        code, _, err = inside("run", recipe, "--out", tmp_path / "run")
    assert code == 1
    assert "could not be written" in err
    assert "Traceback" not in err
    assert not [*tmp_path.rglob("*.partial")]
    # With room again, the same command goes on, or begins again.
    code, _, err = inside("run", recipe, "--out", tmp_path / "run")
    assert code == 0, err


def test_a_run_that_was_stopped_before_its_first_shard(recipe, tmp_path):
    run = tmp_path / "run"
    begin(prepare(str(recipe), run))
    for command in (["tradeoff"], ["sample"], ["report"], ["plan", "--se", "0.1"]):
        code, out, err = inside(command[0], run, *command[1:])
        assert (code, out) == (1, "")
        assert "holds no draws yet" in err
    code, out, _ = inside("watch", run, "--once")
    assert code == 0
    assert "0 of 5,000 draws" in out
    assert len(qr.open_run(run).store) == 0
    assert "0 draws" in repr(qr.open_run(run))
    with pytest.raises(qr.errors.StoreError, match="holds no draws yet"):
        _ = qr.open_run(run).certificate
    code, _, err = inside("run", run)
    assert code == 0, err
    again = tmp_path / "again"
    begin(prepare(str(recipe), again))
    code, _, err = inside("compare", again, "-n", 20, "--runs", 2, "--rates", "0.1")
    assert code == 0, err


def may_write(folder):
    """Return the command that drops the right to write everywhere, and whether it works."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        return None
    tried = subprocess.run([*NOT_ROOT, "touch", folder / "x"], capture_output=True, check=False)
    return NOT_ROOT if tried.returncode else None


@pytest.fixture
def read_only(recipe, tmp_path):
    """Return a run that cannot be written, and a function that runs a command without the right."""
    run = tmp_path / "run"
    assert inside("run", recipe, "--out", run)[0] == 0
    folders = [run, *(path for path in run.rglob("*") if path.is_dir())]
    for path in (*folders, *run.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    prefix = may_write(run)
    if prefix is None:
        pytest.skip("root may write everywhere, and setpriv does not change that")

    def look(*arguments):
        done = subprocess.run(
            [*prefix, sys.executable, "-m", "quasir", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    yield run, look
    for path in folders:
        path.chmod(0o755)


def test_a_run_that_cannot_be_written_can_be_looked_at(read_only):
    run, look = read_only
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    for options in ([], ["--stream"], ["--json"]):
        code, out, err = look("tradeoff", run, *options)
        assert code == 0, err
        assert "tvd" in out.lower()
        assert "could not be written" in err
    code, out, err = look("sample", run, "-n", 50)
    assert code == 0, err
    assert len(out.splitlines()) == 50
    code, out, _ = look("watch", run, "--once")
    assert code == 0
    assert "5,000 of 5,000 draws" in out
    code, out, err = look("plan", run, "--se", "0.001", "--json")
    assert code == 0, err
    assert json.loads(out)["draws"]["value"] > 0
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before


def test_what_must_write_says_that_it_cannot(read_only):
    run, look = read_only
    for command in (["report"], ["run"], ["draw"], ["sample", "-n", "100000"], ["compare"]):
        code, _, err = look(command[0], run, *command[1:])
        assert code == 1, err
        assert "could not be written: Permission denied" in err
        assert "Traceback" not in err
    code, _, err = look("run", "poissons", "--out", run / "new" / "run")
    assert code == 1
    assert "could not be written: Permission denied" in err


def test_draws_without_items_have_no_samples(tmp_path):
    qr.Draws.from_arrays([0.0] * 200, [-1.0] * 200).save(tmp_path / "run")
    code, out, err = inside("sample", tmp_path / "run", "-n", 5, "--beta", 1)
    assert (code, out) == (2, "")
    assert "kept without their items" in err


def test_a_name_with_a_colon_is_no_address(recipe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in (["run", recipe, "--out", "a:b"], ["tradeoff", "a:b"], ["sample", "a:b"]):
        code, _, err = inside(*command)
        assert code == 0, err


def test_an_empty_folder_name_is_refused(recipe, tmp_path, monkeypatch):
    """It would be the current folder, which a run would fill."""
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    code, _, err = inside("run", recipe, "--out", "")
    assert code == 2
    assert "--out" in err or "folder" in err
    with pytest.raises(qr.errors.InputError, match="fill the current folder"):
        qr.Draws.from_arrays([0.0], [0.0]).save("")
    with pytest.raises(qr.errors.StoreError, match="No file has such a name"):
        qr.guides.boost({"a": 2.0}).save("")
    assert sorted(tmp_path.rglob("*")) == before
