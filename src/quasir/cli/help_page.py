"""The documentation page of all commands, made from their `--help`: `make commands`."""

from __future__ import annotations

from typer.testing import CliRunner

from quasir.cli.main import app

__all__ = ["COMMANDS", "document"]

COMMANDS = tuple(
    command.callback.__name__ for command in app.registered_commands if command.callback
)


def document() -> str:
    """Return the page."""
    parts = [
        "# Commands\n\nThe output of `quasir COMMAND --help`, written by `make commands`."
        " stdout is data, stderr is progress.\n"
    ]
    for command in COMMANDS:
        shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "80"}).output
        parts.append(f"## quasir {command}\n\n```text\n{shown.strip()}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(document(), end="")
