"""Opening a run that is on disk, of one context or of many."""

from __future__ import annotations

from pathlib import Path

from quasir.core.files import is_file
from quasir.runs.contexts.on_disk import ContextRun
from quasir.runs.contexts.table import CONTEXTS
from quasir.runs.on_disk import Run
from quasir.store import MANIFEST

__all__ = ["is_context_run", "open_run"]


def is_context_run(folder: Path) -> bool:
    """Return whether a folder holds a run over contexts."""
    return is_file(folder / MANIFEST) and is_file(folder / CONTEXTS)


def open_run(folder: str | Path) -> Run | ContextRun:
    """Open an existing run; no model is loaded, and nothing is written.

    Raises
    ------
    InputError
        If the folder holds no run.
    """
    path = Path(folder)
    run: Run | ContextRun = ContextRun(path) if is_context_run(path) else Run(path)
    _ = run.store
    return run
