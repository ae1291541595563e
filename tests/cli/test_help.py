"""Every command explains itself, and the documents say what it says."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from quasir.cli.main import COMMANDS, app, document

DOCS = Path(__file__).parents[2] / "docs" / "commands.md"


@pytest.mark.parametrize("command", COMMANDS)
def test_each_has_json_seed_and_an_example(command):
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "80"}).output
    for wanted in ("--json", "--seed", f"Example: quasir {command}"):
        assert wanted in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_the_page_of_commands_is_what_they_print():
    assert DOCS.read_text() == document(), "run `make commands`"
