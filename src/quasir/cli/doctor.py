"""`quasir doctor`: versions, devices, places, and a self-test."""

from __future__ import annotations

import json as jsonlib
import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from scipy import stats

from quasir.certificates.curve import tradeoff
from quasir.cli.ending import FAILED
from quasir.cli.options import Json
from quasir.core import __version__
from quasir.core.files import cache_folder
from quasir.draws.draw import draw
from quasir.estimation.quantities import title_of
from quasir.proposals import from_scipy

PACKAGES = ("numpy", "scipy", "pyarrow", "pydantic", "typer", "matplotlib")
OF_EXTRA = re.compile(r"(?P<package>[\w.-]+).*;\s*extra == ['\"](?P<extra>\w+)['\"]")
"""A requirement of an extra, as the metadata of an installed package has it."""


Server = Annotated[str | None, typer.Option(help="Address of a model's server to probe instead.")]
Model = Annotated[str | None, typer.Option(help="The model's name on the server.")]
Key = Annotated[str | None, typer.Option(help="Environment variable that holds its key.")]


def doctor(
    json: Json = False,
    server: Server = None,
    model: Model = None,
    key: Key = None,
) -> None:
    """Show versions and devices, and test a draw or a server.

    It also shows where models and caches are. The self-test draws Poisson(11) from Poisson(10), and
    compares the estimates with the exact values. If it fails, the exit code is 1. Give the output
    with every report of a bug.

    With --server, the log-probabilities of a model's server are probed instead: whether they are
    true, and what the server is good for (docs/servers.md). If it is refused, the exit code is 1.

    Example: quasir doctor --server http://localhost:8000/v1
    """
    if server is not None:
        _probe(server, model, key, json)
        return
    facts: dict[str, Mapping[str, Any]] = {
        "versions": versions(PACKAGES),
        "extras": extras(),
        "devices": devices(),
        "places": places(),
    }
    tests = self_test()
    passed = all(test.passed for test in tests)
    if json:
        tested = {"passed": passed, "comparisons": [test.to_dict() for test in tests]}
        print(jsonlib.dumps({**facts, "self_test": tested}, indent=2))
    else:
        print("\n".join([*(_section(name, facts[name]) for name in facts), _tested(tests)]))
    if not passed:
        raise typer.Exit(FAILED)


def _probe(server: str, model: str | None, key: str | None, json: bool) -> None:
    """Print what a probe of a server finds."""
    from quasir.text import Served

    served = Served(server, model=model, key=key)
    print(f"probing {served.client.root} with some 500 short requests", file=sys.stderr)
    probe = served.probe
    print(jsonlib.dumps(probe.to_dict(), indent=2) if json else "\n".join(probe.lines()))
    if not probe.good_for:
        raise typer.Exit(FAILED)


def versions(packages: Iterable[str]) -> dict[str, str | None]:
    """Return the versions of quasir, Python and packages; None where one is not installed."""
    found: dict[str, str | None] = {"quasir": __version__, "python": platform.python_version()}
    return found | {name: _version(name) for name in packages}


def extras() -> dict[str, str]:
    """Return for each extra of quasir what is installed, with versions, and what is not."""
    packages: dict[str, list[str]] = {}
    try:
        lines = requires("quasir") or []
    except PackageNotFoundError:  # run from a folder of sources
        lines = []
    for found in filter(None, map(OF_EXTRA.match, lines)):
        packages.setdefault(found["extra"], []).append(found["package"])
    return {extra: _told(packages[extra]) for extra in sorted(packages) if extra != "dev"}


def _told(packages: Sequence[str]) -> str:
    """Return the versions of packages in one line, and which of them are absent."""
    found = {name: _version(name) for name in packages}
    there = ", ".join(f"{name} {number}" for name, number in found.items() if number)
    absent = ", ".join(name for name, number in found.items() if not number)
    return "; ".join(filter(None, [there, f"not installed: {absent}" if absent else ""]))


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


def places() -> dict[str, str]:
    """Return where models, caches and this program are."""
    hub = os.environ.get("HF_HOME") or str(Path("~/.cache/huggingface").expanduser())
    return {
        "python": sys.executable,
        "quasir": str(files("quasir")),
        "models": str(files("quasir") / "text" / "models"),
        "hub cache": hub,
        "cache": str(cache_folder()),
    }


def _section(name: str, facts: Mapping[str, Any]) -> str:
    lines = [
        f"  {key:<22} {'not installed' if fact is None else fact}" for key, fact in facts.items()
    ]
    return "\n".join([name, *lines])


def _tested(tests: list[Comparison]) -> str:
    lines = ["self-test: Poisson(11) from Poisson(10) at beta = 2"]
    for test in tests:
        said = "ok" if test.passed else "WRONG"
        title = title_of(test.name)
        lines.append(
            f"  {title:<22} {test.value:.6g} ± {test.se:.2g}, exactly {test.exact:g}: {said}"
        )
    return "\n".join(lines)


BETA = 2.0
EXACT = {"acceptance_rate": 0.498182, "tvd": 0.00353111, "kl": 0.00048655}
"""Poisson(11) from Poisson(10) at beta = 2, by summation over the integers."""
DRAWS = 200_000
MOST = 5.0
"""Standard errors that an estimate may be away; by chance it is further once in a million."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """An estimate and the exact value."""

    name: str
    value: float
    se: float
    exact: float

    @property
    def passed(self) -> bool:
        """Whether they differ by no more than chance explains."""
        return abs(self.value - self.exact) <= MOST * self.se

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        numbers = {"value": self.value, "se": self.se, "exact": self.exact}
        return {"name": self.name, **numbers, "passed": self.passed}


def self_test(seed: int = 0) -> list[Comparison]:
    """Draw Poisson(11) from Poisson(10), and compare the certificate with the exact values."""
    target, proposal = from_scipy(stats.poisson(11)), from_scipy(stats.poisson(10))
    certificate = tradeoff(draw(target, proposal, DRAWS, seed=seed)).at(beta=BETA)
    found = {name: certificate.estimate(name) for name in EXACT}
    return [
        Comparison(name=name, value=float(part.value), se=float(part.se), exact=EXACT[name])
        for name, part in found.items()
    ]
