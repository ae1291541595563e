"""Recipes are refused before any model loads, with the line and a remedy."""

import pytest

import quasir as qr
from quasir import recipes
from quasir.recipes.schema import Source

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


def test_a_good_one():
    recipe = recipes.parse(GOOD, "good.yaml")
    assert recipe.choose.asked == {"acceptance_rate": 0.01}
    assert recipe.pointwise == ["science"]
    assert recipe.unfitted == ["rare"]
    assert recipe.proposal.mixture[1].given(("model", "prompt")) == []
    assert recipes.parse(recipes.dump(recipe), "again.yaml") == recipe


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
        (GOOD + "seed: 1\nseed: 2\n", 12, "given twice"),
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
        ("base: [", 1, "no YAML"),
        ("- a\n- b\n", 1, "a recipe is a mapping"),
        ("", 1, "a recipe is a mapping"),
    ],
)
def test_a_mistake_is_told_with_its_line(text, line, says):
    with pytest.raises(qr.errors.RecipeError) as caught:
        recipes.parse(text, "mine.yaml")
    assert f"mine.yaml, line {line}" in str(caught.value)
    assert says in str(caught.value)


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
