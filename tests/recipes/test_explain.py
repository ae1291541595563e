"""Every setting of a recipe is explained, with its value in force."""

import json

import pytest
import yaml

from quasir import recipes
from quasir.core.progress import Quiet
from quasir.recipes.building import build
from quasir.recipes.explain import CASE, comment, explain
from quasir.runs.fitting import searches
from tests.cli.helpers import inside


def in_force(plain):
    return {one.field: one for one in explain(recipes.from_dict(plain))}


def test_a_recipe_with_base_and_want_alone_is_complete():
    found = in_force({"base": "quasir/biographies", "want": {"female": 0.5}})
    given = [name for name, one in found.items() if one.given]
    assert given == ["base.model", "want"]
    assert found["choose"].value == "{acceptance_rate: 0.01}"
    assert found["choose.confidence"].value == "none"
    assert found["features.female.named"].value == "female"
    assert found["samples"].value == "1000"
    assert found["proposal"].value == "auto"


def test_the_proposal_that_is_told_is_what_a_run_does():
    plain = {"base": "quasir/biographies", "want": {"female": 0.5}}
    said = {
        "auto": [{}, {"draws": 4_096}],
        "base": [{"draws": 4_095}, {"proposal": "base"}, {"want": {}}],
    }
    for value, changes in said.items():
        for change in changes:
            recipe = recipes.from_dict(plain | change)
            assert searches(recipe, Quiet()) == (value == "auto")
            assert in_force(plain | change)["proposal"].value == value


def test_what_is_given_is_no_default():
    plain = {
        "base": {"model": "quasir/biographies", "temperature": 0.7},
        "features": {"a": {"words": ["x"]}, "b": {"contains": "y", "case": False}},
        "want": {"a": 1},
        "draws": 20_000,
        "choose": {"tvd": 0.1, "confidence": 0.9},
    }
    found = in_force(plain)
    assert found["base.temperature"].given
    assert found["draws"].given
    assert "choose.confidence" not in found
    assert (found["features.a.case"].value, found["features.a.case"].given) == ("false", False)
    assert (found["features.b.case"].value, found["features.b.case"].given) == ("false", True)


def test_a_long_value_is_cut_and_a_text_stays_on_its_line():
    table = {f"item {i}": 1.0 for i in range(1000)}
    assert len(in_force({"base": {"table": table}})["base.table"].value) < 320
    found = in_force({"base": {"model": "m/m", "prompt": "é\nb"}})
    assert found["base.prompt"].value == "é\\nb"


@pytest.mark.parametrize("kind", CASE)
def test_the_case_that_is_told_is_the_case_that_holds(kind):
    plain = {"base": "m/m", "features": {"f": {kind: ["Abc"] if kind == "words" else "Abc"}}}
    feature = recipes.from_dict(plain).features["f"].make("f")
    differs = not bool(feature(["abc"])[0])
    assert in_force(plain)["features.f.case"].value == str(differs).lower()


@pytest.mark.parametrize("name", recipes.BUILT_IN)
def test_a_commented_recipe_is_the_same_recipe(name):
    recipe = recipes.read(recipes.BUILT_IN[name])
    text = comment(recipe)
    assert yaml.safe_load(text) == yaml.safe_load(recipes.dump(recipe))
    for field in ("base", "draws", "max_tokens", "seed"):
        assert explained_above(text, field), field


def explained_above(text, field):
    lines = text.splitlines()
    place = next(i for i, line in enumerate(lines) if line.startswith(f"{field}:"))
    return lines[place - 1].startswith("# ")


def test_the_command_explains_in_80_columns(tmp_path):
    (tmp_path / "r.yaml").write_text("base: quasir/biographies\nwant: {female: 1}\n")
    code, out, _ = inside("recipes", "--explain", tmp_path / "r.yaml")
    assert code == 0
    assert "{acceptance_rate: 0.01} (an acceptance rate of 0.01" in " ".join(out.split())
    assert out.index("given:") < out.index("base.model") < out.index("left out, so the default")
    assert max(map(len, out.splitlines()[1:])) <= 80
    told = json.loads(inside("recipes", "--explain", tmp_path / "r.yaml", "--json")[1])
    assert {"field": "seed", "value": "0", "given": False} == {
        key: one[key]
        for one in told
        if one["field"] == "seed"
        for key in ("field", "value", "given")
    }


def test_advice_on_yaml_is_in_yaml(tmp_path):
    plain = {"base": "quasir/biographies", "features": {"n": {"length": "words"}}}
    with pytest.raises(recipes.parsing.RecipeError, match=r"no words: .* boost: \{geologist: 20\}"):
        build(recipes.from_dict({**plain, "proposal": {"guide": {"boost": {"n": 3}}}}), tmp_path)
    with pytest.raises(recipes.parsing.RecipeError, match="contains: 'geologist'"):
        recipes.from_dict({"base": "quasir/biographies", "want": {"geologist": 1}})
