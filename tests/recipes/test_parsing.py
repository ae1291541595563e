"""Anything a YAML file can be is a recipe, or a RecipeError with the line and a remedy."""

import os
import sys
from pathlib import Path

import pytest
import yaml

import quasir as qr
from quasir import recipes
from quasir.recipes import yaml_tree
from quasir.recipes.schema import OF_MODEL, Source
from tests.recipes.corpus import BYTES, TEXTS

GOOD = """\
base: quasir/biographies
features:
  science: science
  rare: {contains: ballet}
want: {science: 1.0, rare: 0.5}
proposal:
  mixture:
    - {weight: 2, prompt: "A dancer."}
    - {weight: 1}
choose: {acceptance_rate: 1e-2}
"""
POISSON = "base: {poisson: 3}\n"
TABLE = "base: {table: {a: 0.5, b: 0.5}}\n"
KINDS = {
    "table": "table: {a: 1}",
    "poisson": "poisson: 3",
    "mixture": "mixture: [base]",
    "round_trip": "round_trip: {there: x, back: y, text: z}",
}
VALUES = {
    "server": "http://localhost:8000",
    "logit_bias": "{'7': 1.0}",
    "mask": "{regex: a}",
    "dtype": "float32",
    "quantization": "4bit",
    "trust_remote_code": "true",
    "temperature": "1",
    "top_k": "3",
    "top_p": "0.5",
}
VALUES["chat"] = "[{role: user, content: x}]"
BOTH = """\
base: {table: {a: 0.4, ab: 0.3, c: 0.2, d: 0.1}}
features: {isa: {contains: a}, long: {search: ..}, never: {contains: x}}
want: {isa: 0.5}
lambda: {long: 3}
"""


def refused(text, says, line):
    with pytest.raises(qr.errors.RecipeError) as caught:
        recipes.parse(text, "mine.yaml")
    message = str(caught.value)
    assert message.startswith(f"mine.yaml, line {line}: "), message
    assert says in message
    assert len(message) < 2000
    assert message.replace("\n", "").isprintable()


@pytest.mark.parametrize("loader", ["C", "Python"])
@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_is_no_recipe(name, loader, monkeypatch):
    """Read with and without PyYAML's C library."""
    if loader == "Python":
        monkeypatch.setattr(yaml_tree, "LOADER", yaml.SafeLoader)
    text, line, says = TEXTS[name]
    refused(text, says, line)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (GOOD.replace("acceptance_rate", "acceptence_rate"), 10, "did you mean acceptance_rate?"),
        (GOOD.replace("prompt", "promt"), 8, "did you mean prompt?"),
        (GOOD.replace("contains", "contain"), 4, "did you mean contains?"),
        (GOOD + "draw: 3\n", 11, "did you mean draws?"),
        (GOOD + "draws: many\n", 11, "integer"),
        (GOOD + "draws: -3\n", 11, "greater than 0"),
        (GOOD + "seed: -1\n", 11, "greater than or equal to 0"),
        (GOOD.replace("rare: 0.5", "rere: 0.5"), 5, "did you mean rare?"),
        (GOOD.replace("rare: 0.5", "rare: 1.5"), 5, "between 0 and 1"),
        (
            GOOD.replace("{acceptance_rate: 1e-2}", "{tvd: 0.1, kl: 0.2}"),
            10,
            "exactly one quantity",
        ),
        (GOOD.replace("{contains: ballet}", "{contains: a, search: b}"), 4, "exactly one kind"),
        (GOOD.replace("science: science", "science: scence"), 3, "no feature is called"),
        (GOOD.replace("{contains: ballet}", "{python: nothing}"), 4, "pattern"),
        (GOOD.replace("weight: 2,", "weight: 2, table: {a: 1},"), 8, "do not go together"),
        (GOOD.replace("base: quasir/biographies", "base: {prompt: x}"), 1, "names no model"),
        (GOOD.replace("base: quasir/biographies", "bass: x"), 1, "did you mean base?"),
        ("base: {table: {a: 1}, temperature: 0.5}\n", 1, "do not go together"),
        ("base: {model: quasir/biographies, revision: main}\n", 1, "has no revisions"),
        (TABLE + "proposal: {poisson: 3, weight: 2}\n", 2, "only in a mixture"),
        ("base: {poisson: 3, weight: 2}\n", 1, "only in a mixture"),
        (TABLE + "proposal: {prompt: x}\n", 2, "names no model"),
        (TABLE + "proposal:\n  mixture:\n    - base\n    - {top_k: 2}\n", 5, "names no model"),
        (TABLE + "draws: true\n", 2, "must be an integer"),
        (TABLE + "draws: '5'\n", 2, "must be an integer"),
        (TABLE + "draws: 2.5\n", 2, "must be an integer"),
        (TABLE + "draws: .inf\n", 2, "must be an integer"),
        (TABLE + "draws: 1.0e+200\n", 2, "less than or equal to 1000000000000"),
        (TABLE + f"seed: {2**200}\n", 2, "less than or equal to"),
        (TABLE + "choose: {tvd: true}\n", 2, "must be a number"),
        (TABLE + "choose: {tvd: '0.5'}\n", 2, "must be a number"),
        (TABLE + "choose: {tvd: .nan}\n", 2, "finite"),
        (TABLE + "choose: {log_beta: 1.0e+308}\n", 2, "less than or equal to"),
        (TABLE + "choose: {beta: .inf}\n", 2, "finite"),
        (TABLE + f"choose: {{kl: 1{'0' * 350}}}\n", 2, "a float can hold"),
        (TABLE + "features: {x: {contains: a, case: 'no'}}\n", 2, "true or false"),
        (TABLE + "features: {x: {similarity: {text: a, above: 2}}}\n", 2, "equal to 1"),
        (TABLE + "features: {x: {search: '('}}\n", 2, "not a regular expression"),
        (TABLE + "features: {x: {words: ['']}}\n", 2, "at least one word"),
        (TABLE + "features: {x: {contains: ''}}\n", 2, "true of every text"),
        (TABLE + "features: {'': {contains: a}}\n", 2, "at least 1 character"),
        (TABLE + "features: {x: {python: '/tmp/x.py:f'}}\n", 2, "beside the recipe"),
        (TABLE + "features: {x: {python: '../x.py:f'}}\n", 2, "beside the recipe"),
        ("base: {poisson: 1.0e+300}\n", 1, "less than or equal to"),
        ("base: {poisson: 1.0e+10}\n", 1, "less than or equal to"),
        ("base: {poisson: 1.0e-300}\n", 1, "greater than or equal to"),
        ("base: {model: x, temperature: 1.0e-320}\n", 1, "greater than or equal to"),
        ("base: {table: {a: 1.0e+308, b: 1.0e+308}}\n", 1, "more than a float can hold"),
        ("base: {table: {a: 1.0e+300, b: 1.0e-300}}\n", 1, "is 0 beside the sum"),
        ("base: {table: {a: true}}\n", 1, "must be a number"),
        (
            TABLE + "proposal:\n  mixture: [{weight: 1.0e+308}, {weight: 1.0e+308}]\n",
            2,
            "more than a float can hold",
        ),
        (
            BOTH.replace("long: 3", "long: 3, isa: 1"),
            4,
            "a tilt is given under lambda, a constraint under want",
        ),
        (BOTH.replace("long: 3}", "long: 3}\nfitted: {long: 1}"), 5, "no constraint under want"),
        (BOTH.replace("long: 3}", "long: 3}\nfitted: {lon: 1}"), 5, "did you mean long?"),
        (BOTH.replace("long: 3}", "long: 3}\nfitted: {isa: .nan}"), 5, "finite"),
        (
            BOTH.replace("0.5}", "0.5, never: 0}\nfitted: {isa: 1, never: 2}"),
            4,
            "holds for every item",
        ),
        (BOTH.replace("0.5}", "0.5, never: 0.1}\nfitted: {isa: 1}"), 4, "give all of them"),
    ],
)
def test_a_mistake_is_told_with_its_line(text, line, says):
    refused(text, says, line)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("setting", OF_MODEL)
def test_settings_of_a_model_elsewhere(kind, setting):
    text = f"{TABLE}proposal: {{{KINDS[kind]}, {setting}: {VALUES.get(setting, 'x')}}}\n"
    refused(text, f"{kind} and {setting} do not go together", 2)


def test_a_good_one():
    recipe = recipes.parse(GOOD, "good.yaml")
    assert recipe.choose.asked == {"acceptance_rate": 0.01}
    assert recipe.pointwise == ["science"]
    assert recipe.unfitted == ["rare"]
    assert recipe.proposal.mixture[1].given(("model", "prompt")) == []
    assert recipes.parse(recipes.dump(recipe), "again.yaml") == recipe


def test_all_mistakes_are_told_at_once():
    with pytest.raises(qr.errors.RecipeError) as caught:
        recipes.parse(GOOD + "draw: 1\nsample: 2\n", "mine.yaml")
    assert len(str(caught.value).splitlines()) == 2


def test_a_name_that_is_nearly_built_in():
    with pytest.raises(qr.errors.RecipeError, match="did you mean scientists"):
        recipes.find("scientist")


@pytest.mark.parametrize("name", recipes.BUILT_IN)
def test_the_built_in_ones_are_good(name):
    recipe = recipes.read(recipes.find(name))
    assert recipe.about.endswith(".")
    assert recipes.parse(recipes.dump(recipe), name) == recipe


def test_changes_from_the_command_line():
    recipe = recipes.parse(GOOD, "good.yaml", draws=5, seed=None)
    assert recipe.draws == 5
    assert recipe.seed == 0


def test_base_is_a_proposal():
    recipe = recipes.parse("base: {poisson: 3}\nproposal: base", "x.yaml")
    assert recipe.proposal == Source()


def test_numbers_as_they_are_written():
    text = TABLE + "draws: 1.0e+5\nfit: 1e5\nseed: 7\nchoose: {acceptance_rate: 1e-2}\n"
    recipe = recipes.parse(text, "x.yaml")
    assert (recipe.draws, recipe.fit, recipe.seed) == (100_000, 100_000, 7)
    assert isinstance(recipe.draws, int)
    assert recipe.choose.asked == {"acceptance_rate": 0.01}
    assert recipes.parse(f"{TABLE}seed: {2**128 - 1}", "x.yaml").seed == 2**128 - 1


def test_what_a_proposal_sets_back_to_the_default_is_kept():
    """Left out of the run's recipe, it would be taken from the base again."""
    text = "base: {model: x, temperature: 0.5, top_k: 3}\nproposal: {temperature: 1, top_k: null}\n"
    recipe = recipes.parse(text, "x.yaml")
    again = recipes.parse(recipes.dump(recipe), "y.yaml")
    assert again.proposal.model_fields_set == {"temperature", "top_k"}
    assert not again.proposal.is_base


@pytest.mark.parametrize("name", BYTES)
def test_bytes(name, tmp_path):
    content, says = BYTES[name]
    path = tmp_path / "mine.yaml"
    path.write_bytes(content)
    if says is None:
        assert recipes.read(path) == recipes.parse(POISSON, "x.yaml")
        return
    with pytest.raises(qr.errors.RecipeError) as caught:
        recipes.read(path)
    assert says in str(caught.value)
    assert "mine.yaml, line " in str(caught.value)


def test_dates_are_texts():
    text = POISSON + "features: {day: {contains: 2024-02-30}, other: {words: [2001-01-01]}}\n"
    recipe = recipes.parse(text, "x.yaml")
    assert recipe.features["day"].contains == "2024-02-30"
    assert recipes.parse(recipes.dump(recipe), "y.yaml") == recipe


def test_a_part_of_a_dictionary_may_stand_in_it_twice():
    table = {"table": {"a": 1.0, "2": 3.0}}
    assert recipes.from_dict({"base": table, "proposal": table}).proposal.table == table["table"]


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
    with pytest.raises(qr.errors.RecipeError):
        recipes.read(Path(path))


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(qr.errors.RecipeError, match="is no file"):
        recipes.read(tmp_path / "pipe.yaml")


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    (tmp_path / "mine.yaml").write_text(POISSON)

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
