"""Anything a YAML file can be is a recipe or a RecipeError."""

import os
import sys

import pytest
import yaml

import quasir as qr
from quasir import recipes
from quasir.recipes import yaml_tree
from tests.recipes.corpus import BYTES, TEXTS

GOOD = "base: {poisson: 3}\n"


@pytest.fixture(params=["C", "Python"])
def _loader(request, monkeypatch):
    """Read with and without PyYAML's C library."""
    if request.param == "Python":
        monkeypatch.setattr(yaml_tree, "LOADER", yaml.SafeLoader)


@pytest.mark.usefixtures("_loader")
@pytest.mark.parametrize("name", TEXTS)
def test_texts(name):
    text, line, says = TEXTS[name]
    with pytest.raises(qr.errors.RecipeError) as caught:
        recipes.parse(text, "mine.yaml")
    message = str(caught.value)
    assert message.startswith(f"mine.yaml, line {line}: "), message
    assert says in message
    assert len(message) < 2000
    assert message.replace("\n", "").isprintable()


@pytest.mark.parametrize("name", BYTES)
def test_bytes(name, tmp_path):
    content, says = BYTES[name]
    path = tmp_path / "mine.yaml"
    path.write_bytes(content)
    if says is None:
        assert recipes.read(path) == recipes.parse(GOOD, "x.yaml")
        return
    with pytest.raises(qr.errors.RecipeError) as caught:
        recipes.read(path)
    assert says in str(caught.value)
    assert "mine.yaml, line " in str(caught.value)


def test_dates_are_texts():
    text = GOOD + "features: {day: {contains: 2024-02-30}, other: {words: [2001-01-01]}}\n"
    recipe = recipes.parse(text, "x.yaml")
    assert recipe.features["day"].contains == "2024-02-30"
    assert recipes.parse(recipes.dump(recipe), "y.yaml") == recipe


def test_aliases_and_plain_tags_work():
    text = "base: &b {table: &t {a: !!float 1, !!str 2: 3}}\nproposal: {table: *t}\n"
    recipe = recipes.parse(text, "x.yaml")
    assert recipe.proposal.table == {"a": 1.0, "2": 3.0}


def test_large_recipes_that_are_right():
    table = ", ".join(f"item{i}: 0.5" for i in range(40_000))
    assert len(recipes.parse(f"base: {{table: {{{table}}}}}", "x.yaml").base.table) == 40_000


def test_many_mistakes_are_cut():
    table = ", ".join(f"item{i}: -1" for i in range(5_000))
    with pytest.raises(qr.errors.RecipeError) as caught:
        recipes.parse(f"base: {{table: {{{table}}}}}", "x.yaml")
    lines = str(caught.value).splitlines()
    assert len(lines) == 21
    assert lines[-1].startswith("... and 4,980 more")


@pytest.mark.parametrize("path", ["/dev/null", "/dev/zero", "/", "/nowhere/at/all", "/tmp/\0"])
def test_paths_that_are_no_files(path):
    from pathlib import Path

    with pytest.raises(qr.errors.RecipeError):
        recipes.read(Path(path))


@pytest.mark.parametrize(
    "name", ["a" * 5000, "a\0b", "/dev/zero", "", "no\nsuch\u202e", "a/" * 3000]
)
def test_names_of_no_recipe(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(qr.errors.RecipeError) as caught:
        recipes.find(name)
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(qr.errors.RecipeError, match="is no file"):
        recipes.read(tmp_path / "pipe.yaml")


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    from pathlib import Path

    (tmp_path / "mine.yaml").write_text(GOOD)

    def refuse(self, *_, **__):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(qr.errors.RecipeError, match=r"mine.yaml cannot be read: Permission denied"):
        recipes.read(tmp_path / "mine.yaml")


def endless():
    value = {"base": {"poisson": 3}}
    value["features"] = value
    return value


def deep():
    value = {}
    for _ in range(sys.getrecursionlimit() + 10):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "value",
    [
        endless(),
        deep(),
        {"base": {"poisson": 10**5000}},
        {"base": {"poisson": object()}},
        {"base": {"poisson": b"3"}},
        {"base": {"poisson": {3}}},
        {"base": {"poisson": complex(1, 2)}},
        {"base": {"table": {1: 1}}},
        {"base": {"table": {(1, 2): 1}}},
        {"base": {"table": {None: 1, True: 2}}},
        {"base": "a\ud800"},
        {"base": {"poisson": float("nan")}},
        {1: 2},
        [("base", "x")],
        3,
        None,
        "base: x",
    ],
    ids=lambda value: type(value).__name__,
)
def test_dictionaries_that_are_no_recipes(value):
    with pytest.raises(qr.errors.RecipeError):
        recipes.from_dict(value)
