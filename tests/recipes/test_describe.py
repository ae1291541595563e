"""The terms of weights: every built-in model states them, and recipes pass them on."""

import json

from quasir import recipes
from quasir.recipes.explain import MODELS, terms_of
from tests.cli.helpers import inside


def test_every_built_in_model_states_its_terms():
    for folder in sorted({weights.parent for weights in MODELS.glob("*/*.safetensors")}):
        recipe = recipes.from_dict({"base": f"quasir/{folder.name}"})
        assert len(terms_of(recipe)) == 1, folder.name


def test_terms_of_all_parts_are_listed_once():
    recipe = recipes.from_dict(
        {
            "base": "quasir/biographies",
            "features": {"same": {"similarity": {"text": "a", "model": "quasir/sentences"}}},
            "proposal": {"mixture": ["base", {"adapter": "quasir/biographies-female"}]},
        }
    )
    assert terms_of(recipe) == ["cc-by-sa-4.0", "for research (the Quora question pairs)"]
    assert terms_of(recipes.from_dict({"base": "someone/some-model"})) == []


def test_the_command_prints_them():
    _, out, _ = inside("recipes", "--json")
    told = json.loads(out)
    assert told["scientists"]["terms"] == ["cc-by-sa-4.0"]
    assert told["poissons"]["terms"] == []
    _, plain, _ = inside("recipes")
    assert "Weights: cc-by-sa-4.0." in plain


def test_no_default_run_needs_weights_that_are_for_research_only():
    for name, path in recipes.BUILT_IN.items():
        terms = " ".join(terms_of(recipes.read(path)))
        assert ("for research" in terms) == (name == "paraphrase"), name
