"""How commands end: exit codes as documented, two lines for a bug, quiet pipes."""

import errno
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import quasir as qr
from quasir.cli import ending
from quasir.cli.bar import Bars
from quasir.cli.ending import write_traceback
from quasir.runs import draw_shards, fitting
from quasir.store import Store
from tests.cli.helpers import LETTERS, POISSONS, inside


def fail_with(monkeypatch, error):
    def app(arguments):
        raise error

    monkeypatch.setattr(sys.modules["quasir.cli.main"], "app", app)


def two_lines(err):
    first, second = err.splitlines()
    assert first.startswith("error: ")
    assert "this is a bug in quasir: please report it" in second
    assert "`quasir doctor`" in second
    assert "Traceback" not in err
    return Path(second.partition("the file ")[2])


def test_a_bug_is_two_lines_and_a_file_in_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    fail_with(monkeypatch, RuntimeError("of several\nlines " + "x" * 999))
    code, out, err = inside("run", "poissons")
    assert (code, out) == (70, "")
    file = two_lines(err)
    assert file.parent == tmp_path / "quasir"
    assert "RuntimeError: of several" in file.read_text()
    assert "quasir run poissons" in file.read_text()
    assert len(err) < 800


def test_where_no_file_can_be_written_the_traceback_is_shown(monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EROFS, "read-only")

    monkeypatch.setattr(Path, "mkdir", refuse)
    text = write_traceback(RuntimeError("here"), [])
    assert "RuntimeError: here" in text


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (qr.errors.InputError("why"), 2),
        (qr.errors.RecipeError("why"), 2),
        (qr.errors.StoreError("why"), 1),
        (qr.errors.UnreachableError("why"), 1),
        (MemoryError(), 1),
        (PermissionError(errno.EACCES, "Permission denied", "there"), 1),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 1),
        (KeyboardInterrupt(), 130),
        (SystemExit(2), 2),
        (SystemExit(None), 0),
        (SystemExit("words"), 1),
        (ZeroDivisionError(), 70),
        (OSError("without a number, as libraries raise them"), 70),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, BaseException) else str(x),
)
def test_exit_codes(monkeypatch, tmp_path, error, code):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    fail_with(monkeypatch, error)
    found, _, err = inside("recipes")
    assert found == code
    assert "Traceback" not in err
    quiet = isinstance(error, (BrokenPipeError, KeyboardInterrupt, SystemExit))
    assert quiet or err.startswith("error: ")


def test_every_exit_code_is_documented():
    shown = " ".join(inside("--help")[1].split())
    for code in (0, ending.FAILED, ending.WRONG, ending.BUG, ending.STOPPED):
        assert f" {code} " in ending.EXIT_CODES
    assert ending.EXIT_CODES in shown


def piped(*arguments, stdout, **options):
    """Run a command with this stdout; return its exit code and stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "quasir", *map(str, arguments)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=300,
        check=False,
        **options,
    )
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ending")
    (folder / "r.yaml").write_text(POISSONS)
    assert inside("run", folder / "r.yaml", "--out", folder / "run")[0] == 0
    return folder / "run"


@pytest.mark.parametrize("command", [["recipes"], ["--help"], ["tradeoff"], ["sample"]])
def test_a_reader_that_wants_no_more(run, command):
    reading, writing = os.pipe()
    os.close(reading)
    given = [*command, run] if command[0] in ("tradeoff", "sample") else command
    code, err = piped(*given, stdout=writing)
    os.close(writing)
    assert code == 1
    assert "Traceback" not in err
    assert "Exception ignored" not in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", [["recipes"], ["sample"], ["doctor"]])
def test_a_full_stdout(run, command):
    given = [*command, run] if command == ["sample"] else command
    with open("/dev/full", "w") as full:
        code, err = piped(*given, stdout=full)
    assert code == 1
    assert "error: stdout cannot be written: No space left on device." in err
    assert "Traceback" not in err


def test_a_closed_stdout_and_stderr(run):
    close = {"preexec_fn": lambda: (os.close(1), os.close(2))}
    for given in (["recipes"], ["sample", run], ["run", run], ["nonsense"]):
        code, _ = piped(*given, stdout=None, **close)
        assert code == (2 if given == ["nonsense"] else 0)


def test_a_full_stderr_does_not_stop_the_work(run, tmp_path):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "quasir", "run", run.parent / "r.yaml", "--out", tmp_path / "b"],
            stdout=subprocess.PIPE,
            stderr=full,
            check=False,
        )
    assert done.returncode == 0
    assert (tmp_path / "b" / "report.html").exists()


def test_a_lone_surrogate_is_printed_as_its_escape(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", None)
    ending.prepare_streams()
    print("a\ud800", flush=True)
    assert stream.buffer.getvalue() == b"a\\ud800\n"
    assert sys.stderr is not None
    sys.stderr.close()


@pytest.mark.parametrize("label", ["fitting", "drawing", "drawing on", "comparing"])
def test_a_stopped_stage_says_what_is_kept(capsys, label):
    for bars, kept in ((Bars(), True), (Bars(**{label: "nothing stays"}), False)):
        with pytest.raises(KeyboardInterrupt), bars.stage(label):
            raise KeyboardInterrupt
        said = capsys.readouterr().err
        assert said.startswith(f"stopped while {label}: ")
        assert ("kept" in said) == kept


def test_what_is_said_of_a_stopped_fit_is_true(monkeypatch, tmp_path):
    """A fit in shards of 1,024: the draws that were made are there, and are not drawn again."""
    monkeypatch.setattr(fitting, "BLOCKS", 1)
    drawn, work, call = [], draw_shards.RowMaker, draw_shards.RowMaker.__call__

    class Stopping(work):
        def __call__(self, start, stop):
            drawn.append((start, stop))
            if start == 3 * 1024 + 16:
                raise KeyboardInterrupt
            return super().__call__(start, stop)

    (tmp_path / "r.yaml").write_text(LETTERS)
    monkeypatch.setattr(draw_shards, "RowMaker", Stopping)
    code, _, err = inside("run", tmp_path / "r.yaml", "--out", tmp_path / "run")
    assert code == 130
    assert "stopped while fitting: 3,088 draws are kept in " in err
    assert not (tmp_path / "run" / "manifest.json").exists()
    assert len(Store.open(tmp_path / "run" / fitting.FIT)) == 3 * 1024
    drawn.clear()
    monkeypatch.setattr(draw_shards, "RowMaker", work)
    monkeypatch.setattr(work, "__call__", lambda *given: drawn.append(given[1:]) or call(*given))
    code, _, err = inside("run", tmp_path / "r.yaml", "--out", tmp_path / "run")
    assert code == 0, err
    assert drawn[0][0] == 3 * 1024 + 16
