"""A run that draws is asked to stop by a file in its folder; it looks for it between shards."""

from __future__ import annotations

import json
from pathlib import Path

from quasir.store.atomic import write_json

__all__ = ["ask_to_stop", "clear_stop", "stop_asked"]

STOP = "stop"


def ask_to_stop(folder: Path, why: str) -> None:
    """Ask the process that draws a run to end after the shards in hand, and say why."""
    write_json(folder / STOP, {"why": why})


def stop_asked(folder: Path) -> str | None:
    """Return why a run is asked to stop, or None."""
    try:
        return str(json.loads((folder / STOP).read_text())["why"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return f"a file {STOP!r} is in the folder"


def clear_stop(folder: Path) -> None:
    """Take the request back: it has been heard, or is from before."""
    (folder / STOP).unlink(missing_ok=True)
