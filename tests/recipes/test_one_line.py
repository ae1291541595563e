"""Recipes from the options of one command line."""

import json

import pytest

from quasir import recipes
from quasir.errors import InputError
from quasir.recipes.one_line import name_recipe, write_recipe


def test_words_means_and_classifiers():
    made = write_recipe(
        "quasir/smollm2",
        contains=["coffee", "tea"],
        classifier=["quasir/sentiment:POSITIVE=0.5"],
        want=["tea=0"],
        chat="Tell me a story.",
        samples=20,
        draws=None,
    )
    assert made["want"] == {"coffee": 1.0, "tea": 0.0, "positive": 0.5}
    assert made["features"]["positive"]["classifier"]["model"] == "quasir/sentiment"
    assert made["base"]["chat"] == [{"role": "user", "content": "Tell me a story."}]
    assert "draws" not in made
    assert name_recipe(made) == "smollm2-coffee-tea-positive"
    read = recipes.from_dict(made)  # it is a recipe
    assert read.pointwise == ["coffee", "tea"]
    assert read.unfitted == ["positive"]
    assert read.choose.asked == {"tvd": 0.1, "confidence": 0.95}


@pytest.mark.parametrize(
    "language", [{"regex": "[a-c]+"}, {"choice": "yes, no"}, {"schema": {"type": "object"}}]
)
def test_languages(language, tmp_path):
    if "schema" in language:
        path = tmp_path / "schema.json"
        path.write_text(json.dumps(language["schema"]))
        language = {"schema": path}
    made = write_recipe("quasir/biographies", prompt="Once", **language)
    (kind,) = language
    (made_kind,) = made["features"]["valid"]["language"]
    assert made_kind == {"schema": "json_schema"}.get(kind, kind)
    assert recipes.from_dict(made).proposal.guide.mask == ["valid"]
    if kind == "choice":  # they follow the prompt after a space
        assert made["features"]["valid"]["language"] == {"choice": [" yes", " no"]}
    assert "proposal" not in write_recipe("http://localhost:8000/v1", **language)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "nothing is asked"),
        ({"regex": "a", "choice": "b"}, "one language"),
        ({"classifier": ["POSITIVE"]}, "MODEL:LABEL"),
        ({"classifier": ["a/b:X=half"]}, "no number"),
        ({"contains": ["a"], "want": ["b=0.5"]}, "the features are a"),
    ],
)
def test_options_that_mean_nothing(options, words):
    with pytest.raises(InputError, match=words):
        write_recipe("quasir/biographies", **options)


def test_a_schema_that_cannot_be_read(tmp_path):
    (tmp_path / "bad.json").write_text("{")
    for path, words in ((tmp_path / "bad.json", "no JSON"), (tmp_path / "none", "could not be")):
        with pytest.raises(InputError, match=words):
            write_recipe("quasir/biographies", schema=path)
