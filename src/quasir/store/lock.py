"""One process at a time on a run."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quasir.errors import StoreError

__all__ = ["locked"]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a run for this process; the system lets go of it when the process ends, however."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise StoreError(
                f"{folder} is in use by process {holder}: two processes on one run would write "
                "over each other. Wait for it to end, or give another folder."
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
