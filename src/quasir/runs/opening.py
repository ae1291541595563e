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

    Examples
    --------
    >>> import tempfile
    >>> import quasir as qr
    >>> recipe = {"base": {"table": {"a": 0.9, "b": 0.1}}, "choose": {"beta": 1}, "samples": 10}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = qr.run(recipe, out=f"{folder}/letters", draws=1000, progress=False)
    ...     print(len(qr.open_run(f"{folder}/letters").samples))
    10
    """
    path = Path(folder)
    run: Run | ContextRun = ContextRun(path) if is_context_run(path) else Run(path)
    _ = run.store
    return run
