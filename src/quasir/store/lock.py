"""One process at a time on a run."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quasir.errors import StoreError

__all__ = ["holder_ended", "locked"]


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
        file.write(f"{os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield


def holder_ended(folder: Path) -> bool:
    """Return whether the process that last held a run is known to have ended; takes no lock."""
    try:
        process, _, host = (folder / ".lock").read_text().partition(" on ")
        if host != socket.gethostname():
            return False
        with contextlib.suppress(PermissionError):
            os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError):
        return False
    return False
