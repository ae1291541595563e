"""The site builds without a warning, offline; its links and names exist."""

import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sphinx.util.inventory import InventoryFile

import quasir
from tests.cli.helpers import inside
from tests.docs import checks

ROOT = Path(__file__).parents[2]
MODULES = (
    *("features", "guides", "text", "tuning", "metrics", "engines", "lattice"),
    *("errors", "samplers", "certificates", "targets", "proposals"),
)


def build(folder, report, execution="off"):
    """Build a copy of docs/ in a folder, with warnings as errors; return the process."""
    if not (folder / "docs").exists():
        left_out = shutil.ignore_patterns("_build", "generated")
        shutil.copytree(ROOT / "docs", folder / "docs", ignore=left_out)
        shutil.copy(ROOT / "CHANGELOG.md", folder)
    options = [f"nb_execution_mode={execution}", f"quasir_report={report}"]
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    command += [word for option in options for word in ("-D", option)]
    command += [str(folder / "docs"), str(folder / "html")]
    source = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": source}
    )


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "poissons"
    code, _, said = inside("run", "poissons", "--draws", "20000", "--out", str(out))
    assert code == 0, said
    return out / "report.html"


@pytest.fixture(scope="module")
def site(tmp_path_factory, report):
    folder = tmp_path_factory.mktemp("site")
    built = build(folder, report)
    assert built.returncode == 0, built.stderr
    return folder / "html"


def test_links_lead_somewhere(site):
    assert checks.broken_links(site) == []


def test_nothing_comes_from_a_network(site):
    assert checks.loaded_from_elsewhere(site) == []


def test_images_have_a_description(site):
    assert checks.images_without_alt(site) == []


def test_a_term_is_linked_where_it_first_appears(site):
    page = (site / "explanation" / "guarantees.html").read_text()
    assert page.count('href="../glossary.html#term-ceiling"') == 1
    assert 'term-ceiling"' not in (site / "reference" / "files.html").read_text()


def test_the_first_page_shows_the_report(site, report):
    assert '<iframe class="live-report" src="report.html"' in (site / "index.html").read_text()
    assert (site / "report.html").read_bytes() == report.read_bytes()


def test_every_public_name_has_its_place(site):
    """The inventory has each name, or the object that the name is another name of."""
    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data
    known = {name for kind, names in inventory.items() if kind.startswith("py:") for name in names}
    objects = [
        getattr(quasir, name.removeprefix("quasir.")) for name in known if name.count(".") == 1
    ]
    absent = []
    for module in (quasir, *(getattr(quasir, name) for name in MODULES)):
        for name in module.__all__:
            thing = getattr(module, name)
            listed = f"{module.__name__}.{name}" in known or any(thing is one for one in objects)
            if not listed and not inspect.ismodule(thing):
                absent.append(f"{module.__name__}.{name}")
    assert absent == []


def test_a_page_that_is_wrong_stops_the_build(tmp_path, report):
    """The controls: a link to nowhere, and a report that is absent; an optional page may be."""
    docs = tmp_path / "docs"
    docs.mkdir()
    shutil.copytree(ROOT / "docs" / "_ext", docs / "_ext")
    shutil.copytree(ROOT / "docs" / "_static", docs / "_static")
    shutil.copy(ROOT / "docs" / "conf.py", docs)
    page = docs / "index.md"
    page.write_text("# A page\n\n[nowhere](nowhere.md)\n")
    built = build(tmp_path, report)
    assert built.returncode != 0
    assert "nowhere" in built.stderr
    page.write_text("# A page\n\n```{toctree}\nnot-there (if there)\n```\n")
    absent = build(tmp_path, tmp_path / "absent.html")
    assert absent.returncode != 0
    assert "there is no report" in absent.stderr
    assert "not-there" not in absent.stderr


@pytest.mark.slow
def test_every_notebook_runs(tmp_path, report):
    built = build(tmp_path, report, execution="cache")
    assert built.returncode == 0, built.stderr
    assert checks.broken_links(tmp_path / "html") == []
    assert checks.images_without_alt(tmp_path / "html") == []
