"""Locations of shards: a folder, or any address that fsspec knows (s3://, gs://, ...)."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
import uuid
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from quasir.core.files import hash_of, write_with
from quasir.errors import InputError


class Location:
    """A place for files, each whole or absent: a folder here, or one that all machines share."""

    tells_time = True  # whether a file's identity changes whenever it is written

    def __init__(self, path: Path) -> None:
        # Absolute, since pyarrow takes a relative name with a colon for an address.
        self.path = path.absolute()
        self.address = str(path.resolve())

    def write(self, name: str, write: Callable[[Path], object]) -> str:
        """Let `write` fill a temporary file, rename it to `name`, and return its SHA-256."""
        self.path.mkdir(parents=True, exist_ok=True)
        hashed = ""

        def write_and_hash(temporary: Path) -> None:
            nonlocal hashed
            write(temporary)
            hashed = hash_of(temporary)

        write_with(self.path / name, write_and_hash, tag=f".{uuid.uuid4().hex[:8]}")
        return hashed

    def content(self, name: str) -> bytes:
        """Return the content of a file; FileNotFoundError if it is absent."""
        return (self.path / name).read_bytes()

    def sha256(self, name: str) -> str:
        """Return the SHA-256 of a file; FileNotFoundError if it is absent."""
        return hash_of(self.path / name)

    def source(self, name: str) -> Any:
        """Return the path or buffer that pyarrow reads the file from."""
        return self.path / name

    def identity(self, name: str) -> list[int]:
        """Return numbers that change when the file does; FileNotFoundError if it is absent."""
        facts = (self.path / name).stat()
        return [facts.st_size, facts.st_mtime_ns]

    def names(self) -> list[str]:
        """Return the names of the whole files here, in order."""
        with contextlib.suppress(FileNotFoundError):
            return sorted(p.name for p in self.path.iterdir() if not p.name.startswith("."))
        return []

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self.path / name).unlink(missing_ok=True)

    def clean(self) -> None:
        """Remove temporary files that killed writers have left."""
        for left in self.path.glob(".*.partial"):
            left.unlink(missing_ok=True)

    def drop(self) -> None:
        """Remove all files, and the folder."""
        shutil.rmtree(self.path, ignore_errors=True)

    def within(self, folder: str) -> Location:
        """Return the location of a folder in this one."""
        return Location(self.path / folder)


class _Remote(Location):
    """An address that fsspec opens; files are fetched whole."""

    tells_time = False

    def __init__(self, address: str) -> None:
        try:
            self._files, root = import_module("fsspec").core.url_to_fs(address)
        except (ImportError, ValueError) as error:
            raise InputError(
                f"{address!r} cannot be written to: {error}. Addresses need fsspec and the package "
                "for their kind: s3fs for s3://, gcsfs for gs://."
            ) from error
        self.address, self._root = address, root.rstrip("/")

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def write(self, name: str, write: Callable[[Path], object]) -> str:
        temporary = self._at(f".{name}.{uuid.uuid4().hex[:8]}.partial")
        with tempfile.TemporaryDirectory() as folder:
            local = Path(folder) / name
            write(local)
            hashed = hash_of(local)
            self._files.makedirs(self._root, exist_ok=True)
            try:
                self._files.put_file(str(local), temporary)
                self._files.mv(temporary, self._at(name))
            except BaseException:
                with contextlib.suppress(Exception):
                    self._files.rm(temporary)
                raise
        return hashed

    def content(self, name: str) -> bytes:
        return bytes(self._files.cat_file(self._at(name)))

    def sha256(self, name: str) -> str:
        return hashlib.sha256(self.content(name)).hexdigest()

    def source(self, name: str) -> Any:
        import pyarrow as pa

        return pa.BufferReader(self.content(name))

    def identity(self, name: str) -> list[int]:
        return [int(self._files.info(self._at(name))["size"])]

    def names(self, hidden: bool = False) -> list[str]:
        there: list[str] = []
        with contextlib.suppress(FileNotFoundError):
            there = self._files.ls(self._root, detail=False, refresh=True)
        names = sorted(path.rstrip("/").rpartition("/")[2] for path in there)
        return [name for name in names if name.startswith(".") == hidden]

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files.rm_file(self._at(name))

    def clean(self) -> None:
        for name in self.names(hidden=True):
            self.remove(name)

    def drop(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files.rm(self._root, recursive=True)

    def within(self, folder: str) -> Location:
        return _Remote(f"{self.address.rstrip('/')}/{folder}")


def location_of(address: str | Path) -> Location:
    """Return the location of an address: a folder, unless it has a scheme."""
    if isinstance(address, Path) or "://" not in address:
        return Location(Path(address))
    return _Remote(address)
