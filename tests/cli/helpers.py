"""Running the command as a user does."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import warnings
from unittest import mock

from quasir.cli.main import main

POISSONS = """\
about: A small one.
base: {poisson: 11}
proposal: {poisson: 10}
draws: 5000
choose: {tvd: 0.05}
samples: 100
"""

LETTERS = """\
about: Letters, of which half are vowels.
base: {table: {a: 0.1, e: 0.1, x: 0.4, y: 0.2, "<script>": 0.2}}
features:
  vowel: {search: "^[ae]$"}
  y: {contains: y}
want: {vowel: 0.5, y: 0}
proposal: {table: {a: 1, e: 1, x: 2, y: 1, "<script>": 4}}
draws: 4000
fit: 5000
choose: {tvd: 0.02}
samples: 300
"""


def files(folder):
    """Return when each file under a folder was written."""
    return {path.name: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def start(*arguments, cwd=None, **options):
    """Start `quasir ARGUMENTS` as a process of its own."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "80"}
    return subprocess.Popen(
        [sys.executable, "-m", "quasir", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=environment,
        **options,
    )


def quasir(*arguments, code=0, apart=False, **options):
    """Run `quasir ARGUMENTS`, see that it ends with `code`, and return stdout and stderr.

    It runs in this process, unless `apart` or an option of a process asks for one of its own.
    """
    if apart or options:
        process = start(*arguments, **options)
        out, err = process.communicate(timeout=600)
        ended = process.returncode
    else:
        with mock.patch.dict(os.environ, COLUMNS="80"):
            ended, out, err = inside(*arguments)
    assert ended == code, f"exit code {ended}\n{out}\n{err}"
    return out, err


def inside(*arguments):
    """Run `quasir ARGUMENTS` in this process; return the exit code, stdout and stderr."""
    out, err, shown = io.StringIO(), io.StringIO(), warnings.showwarning
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            main([str(argument) for argument in arguments])
    except SystemExit as end:
        return end.code or 0, out.getvalue(), err.getvalue()
    finally:
        warnings.showwarning = shown
    raise AssertionError("the command did not end with an exit code")


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
