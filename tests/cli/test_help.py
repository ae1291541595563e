"""Every command explains itself, the documents say what it says, and completion completes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import quasir
from quasir.cli.main import COMMANDS, app, document

ROOT = Path(quasir.__file__).parents[1]
SEEDED = ("run", "draw", "tune", "compare")
"""The commands that a seed changes: a run keeps its own, and the others draw nothing of theirs."""
DOCS = Path(__file__).parents[2] / "docs" / "commands.md"


@pytest.fixture
def command(tmp_path):
    """Put `quasir` on the path of an empty home; return a function that runs a line in bash."""
    script = tmp_path / "bin" / "quasir"
    script.parent.mkdir()
    source = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom quasir.cli import main\nmain()\n"
    script.write_text(f"#!{sys.executable}\n{source}")
    script.chmod(0o755)
    path = f"{script.parent}{os.pathsep}{os.environ['PATH']}"
    # Which shell a terminal has is typer's to find out; here it is given.
    given = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}

    def run(line):
        return subprocess.run(
            ["bash", "-c", line],
            capture_output=True,
            text=True,
            env=os.environ | given | {"HOME": str(tmp_path), "PATH": path},
        )

    return run


def test_bash_completes_commands_after_the_installation(command, tmp_path):
    installed = command("quasir --install-completion bash")
    assert installed.returncode == 0, installed.stderr
    assert "quasir.sh" in (tmp_path / ".bashrc").read_text()
    typed = "COMP_WORDS=(quasir re); COMP_CWORD=1; _quasir_completion quasir; echo ${COMPREPLY[*]}"
    completed = command(f"source ~/.bash_completions/quasir.sh; {typed}")
    assert completed.stdout.split() == ["report", "recipes"]


def test_the_command_alone_shows_its_help(command):
    shown = command("quasir")
    assert "Usage: quasir" in shown.stdout + shown.stderr
    assert "doctor" in shown.stdout + shown.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_each_has_json_an_example_and_a_seed_where_it_does_something(command):
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "80"}).output
    assert "--json" in shown
    assert f"Example: quasir {command}" in shown
    assert ("--seed" in shown) == (command in SEEDED)
    assert max(map(len, shown.splitlines())) <= 80


def test_no_summary_of_a_command_is_cut():
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).output
    assert "..." not in shown.partition("Commands:")[2]
    assert max(map(len, shown.splitlines())) <= 80


def test_the_page_of_commands_is_what_they_print():
    assert DOCS.read_text() == document(), "run `make commands`"
