"""The texts say what is there: names, links and fields of recipes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import checks

ROOT = Path(__file__).parents[2]
FILE = re.compile(r"`([\w/.-]+/(?:[\w.-]+\.(?:py|md|yaml))?)`")
OF_ROOT = sorted(ROOT.glob("*.md")) + sorted((ROOT / ".github").rglob("*.md"))
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)
MENTIONING = [
    path
    for folder in ("src", "tests", "benchmarks", "examples", "training")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".yaml", ".html") and path.parent.name != "docs"
]


@pytest.mark.parametrize("page", [*OF_ROOT, *PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_names_and_links_exist(page):
    assert checks.unknown_names(page.read_text(encoding="utf-8")) == []
    assert checks.broken_markdown_links(page) == []


def test_pages_that_the_source_mentions_exist():
    mentioned = {path: path.read_text(encoding="utf-8") for path in MENTIONING}
    assert {p: a for p, text in mentioned.items() if (a := checks.absent_pages(text, ROOT))} == {}


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_files_that_the_pages_for_contributors_name_exist(page):
    named = set(FILE.findall((ROOT / page).read_text(encoding="utf-8")))
    roots = (ROOT, ROOT / "src" / "quasir")
    assert len(named) > 10
    assert [name for name in named if not any((root / name).exists() for root in roots)] == []


def test_every_field_of_a_recipe_has_a_meaning(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    import recipe_fields

    assert recipe_fields.without_meaning() == []
    monkeypatch.setattr(recipe_fields, "meanings", dict)
    assert "Choice.confidence" in recipe_fields.without_meaning()
    sys.modules.pop("recipe_fields")


def test_notebooks_are_those_of_the_tutorials(monkeypatch):
    """The cells are compared, not run: `make notebooks` runs what has changed."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import notebooks

    assert [page.stem for page in notebooks.pages() if not notebooks.is_current(page)] == []
    assert len(list((ROOT / "docs" / "notebooks").iterdir())) == len(notebooks.pages())


def test_the_texts_are_short():
    assert len((ROOT / "README.md").read_text().splitlines()) < 120
    counted = subprocess.run([sys.executable, ROOT / "tools" / "words.py"], capture_output=True)
    assert counted.returncode == 0, counted.stdout.decode()


def test_names_that_do_not_exist_are_found():
    right = "`qr.features.contains('x')`, `qr.Draws.load`, qr.nothing in prose is no name"
    assert checks.unknown_names(right) == []
    wrong = "`qr.draws`, `qr.features.woman`\n```python\nqr.QRS.samples(3)\n```"
    assert checks.unknown_names(wrong) == ["qr.draws", "qr.features.woman", "qr.QRS.samples"]


def test_broken_links_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<p id="here"></p><a href="b.html#there">b</a>')
    (tmp_path / "b.html").write_text('<img src="c.png"><a href="a.html#here">a</a><a href="x/">')
    assert checks.broken_links(tmp_path) == ["a.html: b.html#there", "b.html: c.png", "b.html: x/"]
    assert checks.images_without_alt(tmp_path) == ["b.html: c.png"]
    (tmp_path / "a.html").write_text('<script src="https://example.org/a.js"></script>')
    assert len(checks.loaded_from_elsewhere(tmp_path)) == 1
    page = tmp_path / "page.md"
    page.write_text("[a](a.html#here), [b](gone.md), `[c](code.md)`")
    assert checks.broken_markdown_links(page) == ["gone.md"]
    assert checks.absent_pages("see docs/gone.md", tmp_path) == ["docs/gone.md"]
