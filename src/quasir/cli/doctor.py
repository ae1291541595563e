"""`quasir doctor`: versions, devices, places, and a self-test."""

from __future__ import annotations

import json as jsonlib
import os
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from scipy import stats
from typer import Option

from quasir.certificates.curve import tradeoff
from quasir.cli.bar import say
from quasir.cli.ending import FAILED
from quasir.cli.options import Json
from quasir.core import __version__
from quasir.core.files import cache_folder
from quasir.draws.draw import draw
from quasir.estimation.quantities import title_of
from quasir.proposals import from_scipy

PACKAGES = ("numpy", "scipy", "pyarrow", "pydantic", "typer", "matplotlib")
OF_EXTRA = re.compile(r"(?P<package>[\w.-]+).*;\s*extra == ['\"](?P<extra>\w+)['\"]")

Server = Annotated[str | None, Option(help="Address of a model's server to probe instead.")]
Model = Annotated[str | None, Option(help="The model's name on the server.")]
Key = Annotated[str | None, Option(help="Environment variable that holds its key.")]


def doctor(json: Json = False, server: Server = None, model: Model = None, key: Key = None) -> None:
    """Show versions and devices, and test a draw or a server.

    It also shows where models and caches are. The self-test draws Poisson(11) from Poisson(10), and
    compares the estimates with the exact values. If it fails, the exit code is 1. Give the output
    with every report of a bug.

    With --server, the log-probabilities of a model's server are probed instead: whether they are
    true, and what the server is good for (docs/servers.md). If it is refused, the exit code is 1.

    Example: quasir doctor --server http://localhost:8000/v1
    """
    if server is not None:
        from quasir.text import Served

        served = Served(server, model=model, key=key)
        say(f"probing {served.client.root} with some 500 short requests")
        probe = served.probe
        print(jsonlib.dumps(probe.to_dict(), indent=2) if json else "\n".join(probe.lines()))
        if not probe.good_for:
            raise typer.Exit(FAILED)
        return
    hub = os.environ.get("HF_HOME") or str(Path("~/.cache/huggingface").expanduser())
    own = {"quasir": __version__, "python": platform.python_version()}
    facts: dict[str, dict[str, Any]] = {
        "versions": own | {name: _version(name) for name in PACKAGES},
        "extras": extras(),
        "devices": devices(),
        "places": {
            "python": sys.executable,
            "quasir": str(files("quasir")),
            "models": str(files("quasir") / "text" / "models"),
            "hub cache": hub,
            "cache": str(cache_folder()),
        },
    }
    tests = self_test()
    passed = all(test["passed"] for test in tests)
    if json:
        tested = {"passed": passed, "comparisons": tests}
        print(jsonlib.dumps({**facts, "self_test": tested}, indent=2))
    else:
        for name, section in facts.items():
            print(name)
            for key, fact in section.items():
                print(f"  {key:<22} {fact or 'not installed'}")
        print(f"self-test: Poisson(11) from Poisson(10) at beta = {BETA:g}")
        for test in tests:
            found = f"{test['value']:.6g} ± {test['se']:.2g}, exactly {test['exact']:g}"
            said = "ok" if test["passed"] else "WRONG"
            print(f"  {title_of(test['name']):<22} {found}: {said}")
    if not passed:
        raise typer.Exit(FAILED)


def extras() -> dict[str, str]:
    """Return for each extra of quasir what is installed, with versions, and what is not."""
    packages: dict[str, dict[str, str | None]] = {}
    try:
        lines = requires("quasir") or []
    except PackageNotFoundError:  # run from a folder of sources
        lines = []
    for found in filter(None, map(OF_EXTRA.match, lines)):
        packages.setdefault(found["extra"], {})[found["package"]] = _version(found["package"])
    packages.pop("dev", None)
    told = {}
    for extra, versions in sorted(packages.items()):
        there = ", ".join(f"{name} {number}" for name, number in versions.items() if number)
        absent = ", ".join(name for name, number in versions.items() if not number)
        told[extra] = "; ".join(filter(None, [there, absent and f"not installed: {absent}"]))
    return told


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def devices() -> dict[str, str]:
    """Return the machine, its cores, and what torch can compute on."""
    found = {"machine": f"{platform.system()} {platform.machine()}", "cores": str(os.cpu_count())}
    if find_spec("torch") is None:
        return found | {"torch": "not installed"}
    try:
        import torch
    except Exception as error:  # a broken installation is what this command must show
        return found | {"torch": f"cannot be imported: {error}"}
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        return found | {"torch": ", ".join(names)}
    return found | {"torch": f"CPU, {torch.get_num_threads()} threads"}


BETA, DRAWS = 2.0, 200_000
EXACT = {"acceptance_rate": 0.498182, "tvd": 0.00353111, "kl": 0.00048655}
MOST = 5.0  # standard errors that an estimate may be away; by chance once in a million


def self_test() -> list[dict[str, Any]]:
    """Draw Poisson(11) from Poisson(10), and compare the certificate with the exact values."""
    target, proposal = from_scipy(stats.poisson(11)), from_scipy(stats.poisson(10))
    certificate = tradeoff(draw(target, proposal, DRAWS, seed=0)).at(beta=BETA)
    tests = []
    for name, exact in EXACT.items():
        estimate = certificate.estimate(name)
        value, se = float(estimate.value), float(estimate.se)
        passed = abs(value - exact) <= MOST * se
        tests.append({"name": name, "value": value, "se": se, "exact": exact, "passed": passed})
    return tests
