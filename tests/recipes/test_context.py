"""A recipe with `{context}`: filled once, before anything is loaded; never drawn with the field."""

import pytest

import quasir as qr
from quasir import recipes
from quasir.recipes import context
from quasir.recipes import installed as installed_
from quasir.recipes.building import build

WITH = {
    "base": {"model": "no-such-model", "prompt": "Say again: {context}"},
    "features": {"same": {"similarity": {"text": "{context}", "above": 0.9}}},
    "want": {"same": 1.0},
    "proposal": {
        "mixture": [
            {"model": "other", "source": "{context}"},
            {"round_trip": {"there": "a", "back": "b", "text": "to {context}"}},
            "base",
        ]
    },
}


def test_every_text_is_filled_and_the_rest_stays():
    recipe = recipes.from_dict(WITH, "How are you?")
    assert recipe.base.prompt == "Say again: How are you?"
    assert recipe.features["same"].similarity.text == "How are you?"
    first, second, third = recipe.proposal.mixture
    assert (first.source, second.round_trip.text) == ("How are you?", "to How are you?")
    assert third.is_base
    assert recipe == recipes.parse(recipes.dump(recipe), "again")
    context.check_filled(recipe)


def test_a_context_is_text_and_not_a_pattern():
    recipe = recipes.from_dict(WITH, r"a \1 {b} %s ü")
    assert recipe.base.prompt == r"Say again: a \1 {b} %s ü"
    context.check_filled(recipe)


def test_without_a_context_nothing_is_loaded(tmp_path):
    unfilled = recipes.from_dict(WITH)
    with pytest.raises(qr.RecipeError, match=r"needs a context.*--context"):
        build(unfilled, tmp_path)
    out = tmp_path / "run"
    with pytest.raises(qr.RecipeError, match="needs a context"):
        qr.run(WITH, out, progress=False)
    assert not out.exists()


def test_a_context_without_a_place_is_refused():
    plain = {"base": {"poisson": 11}, "proposal": {"poisson": 10}}
    with pytest.raises(qr.RecipeError, match="the recipe has no field"):
        recipes.from_dict(plain, "x")


@pytest.mark.parametrize("wrong", ["", "  \n", "a {context} b"])
def test_a_context_that_says_nothing_or_repeats_the_field_is_refused(wrong):
    with pytest.raises(qr.RecipeError, match="the context is"):
        recipes.from_dict(WITH, wrong)


def test_another_field_is_refused_but_other_braces_are_text():
    base = {"model": "m", "prompt": "{context} and {question}"}
    with pytest.raises(qr.RecipeError, match=r"has the fields \{context\}, \{question\}"):
        recipes.from_dict({"base": base}, "x")
    base = {"model": "m", "prompt": '{"a": 1} {context}'}
    assert recipes.from_dict({"base": base}, "x").base.prompt == '{"a": 1} x'


def near(monkeypatch, installed):
    monkeypatch.setattr(installed_, "is_installed", lambda package: installed)
    similar = {"text": "a", "above": 0.9, "model": "quasir/sentences", "instead": {"better": 0.7}}
    recipe = recipes.from_dict({"base": "m", "features": {"same": {"similarity": similar}}})
    return recipe.features["same"].similarity


def test_an_installed_package_replaces_the_model_and_its_threshold(monkeypatch):
    kept = near(monkeypatch, False)
    assert (kept.model, kept.above, kept.instead) == ("quasir/sentences", 0.9, None)
    other = near(monkeypatch, True)
    assert (other.model, other.above, other.instead) == ("better", 0.7, None)


def test_instead_needs_a_threshold_of_the_other_model_too():
    similar = {"text": "a", "instead": {"better": 0.7}}
    with pytest.raises(qr.RecipeError, match="above is needed"):
        recipes.from_dict({"base": "m", "features": {"same": {"similarity": similar}}})


def test_a_boost_of_the_context_is_of_its_words():
    proposal = {"guide": {"boost": {"{context}": 100.0, "why": 2.0}}, "share": 0.1}
    given = {"base": "m", "proposal": {"mixture": [proposal, "base"]}}
    unfilled = recipes.from_dict(given)
    with pytest.raises(qr.RecipeError, match="needs a context"):
        context.check_filled(unfilled)
    recipe = recipes.from_dict(given, "Is the best Ü2016 of an_old?")
    boost = recipe.proposal.mixture[0].guide.boost
    assert boost == {"the": 100.0, "best": 100.0, "Ü2016": 100.0, "old": 100.0, "why": 2.0}
    context.check_filled(recipe)
    assert recipe == recipes.parse(recipes.dump(recipe), "again")
    short = recipes.from_dict(given, "a b").proposal.mixture[0].guide.boost
    assert short == {"a b": 100.0, "why": 2.0}
    given["proposal"]["mixture"][0]["guide"] = {"boost": ["{context}"]}
    boost = recipes.from_dict(given, "good").proposal.mixture[0].guide.boost
    assert boost == ["good"]  # its factor is to be fitted
