"""Control of a run: one process holds its lock, and other processes may ask it to stop."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from quasir.core.files import make_folder, unwritable, write_json
from quasir.errors import StoreError

STOP = "stop"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a run's folder, and lock it for this process, until the process ends in any way.

    Only what writes needs this: a run that cannot be written can still be looked at. A new folder
    that an error leaves with nothing but the lock is removed.
    """
    new = not os.path.isdir(folder)
    make_folder(folder)
    with ExitStack() as stack:
        try:
            # Without a buffer, closing the file cannot fail a second time on a full disk.
            file = stack.enter_context((folder / ".lock").open("ab+", buffering=0))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.truncate(0)
            file.write(f"{os.getpid()} on {socket.gethostname()}".encode())
        except BlockingIOError as error:
            file.seek(0)
            holder = file.read().decode(errors="replace").strip() or "unknown"
            raise StoreError(
                f"{folder} is in use by process {holder}: two processes on one run would write "
                "over each other. Wait for it to end, or give another folder."
            ) from error
        except OSError as error:
            raise unwritable(folder, error) from error
        try:
            yield
        except BaseException:
            if new and os.listdir(folder) == [".lock"]:
                (folder / ".lock").unlink()
                folder.rmdir()
            raise


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


def ask_to_stop(folder: Path, why: str) -> None:
    """Ask the process that draws a run to stop after the shards under way, and give the reason."""
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
    """Remove the request: it was obeyed, or it is left over from an earlier process."""
    (folder / STOP).unlink(missing_ok=True)
