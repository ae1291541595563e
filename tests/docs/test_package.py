"""The sdist and the wheel install into an empty environment, and run there."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import quasir

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


VERSIONS = [
    found["version"]
    for line in PROJECT["classifiers"]
    if (found := re.fullmatch(r"Programming Language :: Python :: (?P<version>3\.\d+)", line))
]


def test_one_version_everywhere():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert quasir.__version__ == PROJECT["version"] == cited["version"]


def test_the_citation_has_the_published_form_and_the_preprint():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    published, preprint = cited["preferred-citation"], cited["references"][0]
    assert published["title"].startswith("An approximate sampler for energy-based models")
    assert published["journal"] == "Transactions on Machine Learning Research"
    assert preprint["title"].startswith("Sampling from Discrete Energy-Based Models")
    assert {"Eikema", "Dymetman"} <= {author["family-names"] for author in published["authors"]}


def run(*command, **options):
    """Run a command outside of the repository; fail with what it said."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, env=clean, **options
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", out, ROOT)
    return next(out.glob("*.tar.gz")), next(out.glob("*.whl"))


@pytest.mark.slow
def test_what_is_in_them(built):
    sdist, wheel = built
    packed = zipfile.ZipFile(wheel).namelist()
    for wanted in ("py.typed", "recipes/built_in/poissons.yaml", "text/models/biographies/"):
        assert any(f"quasir/{wanted}" in name for name in packed), wanted
    assert not any(name.startswith(("tests/", "docs/")) for name in packed)
    sources = tarfile.open(sdist).getnames()
    assert any(name.endswith("tests/docs/test_package.py") for name in sources)
    assert any(name.endswith("LICENSE") for name in sources)
    assert not any("/docs/_build/" in name or "/.git/" in name for name in sources)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "version"), [("sdist", VERSIONS[0]), *(("wheel", version) for version in VERSIONS)]
)
def test_it_runs_in_an_empty_environment(built, tmp_path, kind, version):
    """Without extras there is no torch, and the Poissons run, on each Python of the classifiers."""
    package = built[0] if kind == "sdist" else built[1]
    python = empty_environment(tmp_path, interpreter(version))
    run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", package)
    quasir = python.with_name("quasir")
    told = json.loads(run(quasir, "doctor", "--json", cwd=tmp_path))
    assert told["self_test"]["passed"] is True
    assert "not installed: " in told["extras"]["text"]
    run(quasir, "run", "poissons", "--out", "run", cwd=tmp_path)
    assert (tmp_path / "run" / "report.html").is_file()
    assert run(python, "-c", "import quasir; print(quasir.__file__)").startswith(str(tmp_path))


@pytest.mark.slow
def test_with_language_models(built, tmp_path):
    python = empty_environment(tmp_path)
    wheel = f"quasir[text] @ {built[1].as_uri()}"
    run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel)
    run(
        python.with_name("quasir"), "run", "scientists", "--draws", 2000, "--out", "run",
        cwd=tmp_path,
    )  # fmt: skip
    assert len((tmp_path / "run" / "samples.jsonl").read_text().splitlines()) > 0


def interpreter(version):
    """Return a Python of this version; skip the test where there is none."""
    if sys.version.startswith(f"{version}."):
        return sys.executable
    pyenv = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
    found = shutil.which(f"python{version}") if not pyenv else str(pyenv[-1])
    return found or pytest.skip(f"there is no Python {version} here")


def empty_environment(folder, python=sys.executable):
    """Return the Python of a new environment that sees no other packages."""
    run(python, "-m", "venv", folder / "venv")
    return folder / "venv" / "bin" / "python"
