"""Classifiers, rewards, batched functions and model settings in recipes."""

import numpy as np
import pytest

import quasir as qr
from quasir import recipes
from quasir.recipes.building import build, resolve
from tests.features.test_classifier import logits_by_hand, network

TABLE = {"table": {"good film": 0.5, "bad film": 0.25, "film": 0.25}}


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    folder = tmp_path_factory.mktemp("judges")
    for name, labels in (("mood", ("NEGATIVE", "POSITIVE")), ("reward", ("reward",))):
        pair = network(labels)
        for part in pair:
            part.save_pretrained(folder / name)
    return folder


def target_of(recipe, folder, **allowed):
    built = build(recipe, folder, **allowed)
    return resolve(recipe, built)[1], built


def test_a_classifier_beside_the_recipe_is_a_feature_and_identified(judge):
    spec = {"classifier": {"model": "mood", "label": "POSITIVE", "above": 0.5}}
    recipe = recipes.from_dict({"base": TABLE, "features": {"good": spec}, "want": {"good": 1}})
    assert recipe.pointwise == ["good"]
    target, built = target_of(recipe, judge)
    texts = list(TABLE["table"])
    hand = [np.diff(logits_by_hand(network(), text))[0] > 0 for text in texts]
    assert (target.log_score(texts) > -np.inf).tolist() == hand
    assert built.models[-1]["name"] == "mood"
    assert built.models[-1]["weights_sha256"]


def test_a_reward_is_short_for_a_feature_and_its_lambda(judge):
    given = {"base": TABLE, "reward": {"model": "reward", "temperature": 0.5, "high": 100.0}}
    recipe = recipes.from_dict(given)
    assert recipe.reward is None
    assert recipe.coefficients == {"reward": 2.0}
    again = recipes.parse(recipes.dump(recipe), "recipe.yaml")
    assert again == recipe
    target, _ = target_of(recipe, judge)
    texts = list(TABLE["table"])
    rewards = [logits_by_hand(network(("reward",)), text)[0] for text in texts]
    expected = np.log(list(TABLE["table"].values())) + 2.0 * np.array(rewards)
    np.testing.assert_allclose(target.log_score(texts), expected, atol=1e-4)


def test_a_batched_function_gets_a_list_of_strings_and_its_bounds_hold(tmp_path):
    code = "def f(texts):\n    return [len(text.split()) / 2 for text in texts]\n"
    (tmp_path / "own.py").write_text(code)
    spec = {"python": "own.py:f", "batched": True, "low": 0, "high": 1}
    recipe = recipes.from_dict({"base": TABLE, "features": {"words": spec}, "lambda": {"words": 1}})
    target, _ = target_of(recipe, tmp_path, allow_code=True)
    assert target.log_score(["film"])[0] == pytest.approx(np.log(0.25) + 0.5)
    reward = recipes.from_dict({"base": TABLE, "reward": {"python": "own.py:f", "batched": True}})
    assert target_of(reward, tmp_path, allow_code=True)[0].log_score(["film"])[0] == pytest.approx(
        np.log(0.25) + 0.5
    )
    with pytest.raises(qr.errors.RecipeError, match="--allow-code"):
        build(reward, tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"reward": {"temperature": 1.0}}, "a model, or a python function"),
        ({"reward": {"model": "x", "batched": True}}, "batched means nothing"),
        ({"reward": {"model": "x"}, "features": {"reward": "science"}}, "another name"),
        (
            {"features": {"f": {"contains": "x", "batched": True}}},
            "batched: only features of your own",
        ),
        ({"features": {"f": {"classifier": {"model": "x", "above": 2}}}}, "between 0 and 1"),
        ({"base": {"model": "x", "quantization": "2bit"}}, "4bit"),
        ({"base": {"model": "x", "max_tokens": 9}}, "at the top of a recipe"),
    ],
)
def test_mistakes_are_found_before_any_model_is_loaded(change, words):
    with pytest.raises(qr.errors.RecipeError, match=words):
        recipes.from_dict({"base": TABLE, **change})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"trust_remote_code": True}, "--allow-code"),
        ({"quantization": "4bit"}, "pip install bitsandbytes"),
        ({"device": "cpu", "device_map": "auto"}, "not both"),
    ],
)
def test_settings_of_a_model_that_cannot_be_used(settings, words, tmp_path, monkeypatch):
    monkeypatch.setattr("quasir.text.loading.find_spec", lambda name: None)  # no bitsandbytes
    recipe = recipes.from_dict({"base": {"model": "quasir/biographies", **settings}})
    with pytest.raises(qr.errors.QuasirError, match=words):
        build(recipe, tmp_path)


def test_a_model_that_is_spread_by_a_map_draws_the_same():
    plain = qr.text.CausalLM("quasir/biographies", max_tokens=8)
    spread = qr.text.CausalLM("quasir/biographies", max_tokens=8, device_map="cpu")
    first, second = (lm.sample(8, np.random.default_rng(0)) for lm in (plain, spread))
    assert list(first.items) == list(second.items)
