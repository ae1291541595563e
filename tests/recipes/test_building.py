"""From a recipe to the objects that it names."""

import numpy as np
import pytest
import torch

import quasir as qr
from quasir import recipes
from quasir.recipes.building import build, own_files, resolve
from quasir.recipes.explain import asked
from tests.recipes.test_parsing import BOTH, TABLE
from tests.text.tiny import gpt2, t5, tokenizer

ITEMS = ["a", "ab", "c", "d"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with tiny models beside the recipe."""
    folder = tmp_path_factory.mktemp("models")
    words = tokenizer(("a", "b", "c"))
    for name, model in (("one", gpt2(len(words), seed=0)), ("two", gpt2(len(words), seed=1))):
        model.save_pretrained(folder / name)
        words.save_pretrained(folder / name)
    t5(len(words), words.bos_token_id, words.eos_token_id, seed=1).save_pretrained(folder / "t5")
    words.save_pretrained(folder / "t5")
    return folder


def built(text, folder):
    return build(recipes.parse(text, "x.yaml"), folder)


def same_law(one, other):
    texts = one.sample(50, np.random.default_rng(0)).items
    np.testing.assert_allclose(one.log_prob(texts), other.log_prob(texts), atol=1e-5)


def test_what_a_proposal_leaves_out_is_the_bases(folder):
    parts = built(
        "base: {model: one, temperature: 0.5, prompt: a}\nproposal: {prompt: b}\nmax_tokens: 4\n",
        folder,
    )
    assert parts.base.warp.temperature == parts.proposal.warp.temperature == 0.5
    assert (parts.base.prompt, parts.proposal.prompt) == ("a", "b")
    assert parts.base.model is parts.proposal.model
    assert len(parts.models) == 1
    lm = qr.text.CausalLM(str(folder / "one"), max_tokens=4, temperature=0.5)
    same_law(parts.proposal, lm.prompted("b"))


def test_a_model_of_its_own_starts_from_its_own_defaults(folder):
    text = "base: {model: one, temperature: 0.5}\nproposal: {model: two}\nmax_tokens: 4\n"
    parts = built(text, folder)
    assert parts.proposal.warp.temperature == 1.0
    same_law(parts.proposal, qr.text.CausalLM(str(folder / "two"), max_tokens=4))
    assert [model["name"] for model in parts.models] == ["one", "two"]
    assert parts.models[0]["weights_sha256"] != parts.models[1]["weights_sha256"]


def test_all_files_of_a_model_are_its_identity(folder, tmp_path):
    """Weights in several files: the last one counts as the first does."""
    words = tokenizer(("a", "b", "c"))
    found = []
    for seed in (0, 1):
        model = gpt2(len(words), seed=0)
        with torch.no_grad():
            model.transformer.wte.weight[0, 0] += seed
        model.save_pretrained(tmp_path / str(seed), max_shard_size="4KB")
        words.save_pretrained(tmp_path / str(seed))
        assert len(list((tmp_path / str(seed)).glob("*.safetensors"))) > 1
        (identity,) = built(f"base: {{model: '{seed}'}}\nmax_tokens: 4\n", tmp_path).models
        found.append({name: value for name, value in identity.items() if name != "name"})
    assert found[0]["weights_sha256"] != found[1]["weights_sha256"]
    tokenizer(("a", "c", "b")).save_pretrained(tmp_path / "1")
    (identity,) = built("base: {model: '1'}\nmax_tokens: 4\n", tmp_path).models
    assert identity["tokenizer_sha256"] != found[1]["tokenizer_sha256"]


def test_a_mixture_of_all_kinds(folder):
    parts = built(
        """\
base: one
proposal:
  mixture:
    - {weight: 3, prompt: "a b", top_k: 2}
    - {model: two}
    - {}
max_tokens: 4
""",
        folder,
    )
    assert parts.proposal.weights.tolist() == [0.6, 0.2, 0.2]
    assert [c.truncates for c in parts.proposal.components] == [True, False, False]
    assert parts.proposal.components[2] is parts.base


def test_encoder_decoders(folder):
    parts = built(
        """\
base: one
proposal:
  mixture:
    - {model: t5, source: "a b"}
    - {model: t5, source: "c"}
max_tokens: 4
""",
        folder,
    )
    assert [c.source for c in parts.proposal.components] == ["a b", "c"]
    trip = built(
        "base: one\nmax_tokens: 4\n"
        "proposal: {round_trip: {there: t5, back: t5, text: 'b c a', top_k: 2}}\n",
        folder,
    )
    assert trip.proposal.truncates
    assert trip.models[1]["name"] == "t5"


def test_an_adapter_beside_the_recipe(folder):
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(0)
    lora = get_peft_model(
        gpt2(5, seed=0), LoraConfig(r=2, init_lora_weights=False, fan_in_fan_out=True)
    )
    lora.save_pretrained(folder / "lora")
    parts = built("base: one\nproposal: {adapter: lora}\nmax_tokens: 4\n", folder)
    direct = qr.text.CausalLM(str(folder / "one"), adapter=str(folder / "lora"), max_tokens=4)
    same_law(parts.proposal, direct)
    assert parts.base.model is not parts.proposal.model
    assert parts.models[1]["adapter"] == "lora"
    assert len(parts.models[1]["adapter_sha256"]) == 64


def test_targets(folder):
    text = """\
base: {table: {a: 0.5, b: 0.3, c: 0.2}}
features: {a: {contains: a}, b: {contains: b}, long: {length: characters}}
want: {a: 0}
lambda: {b: 1.5}
"""
    recipe = recipes.parse(text, "x.yaml")
    resolved, target = resolve(recipe, build(recipe, folder))
    assert resolved == recipe
    weights = np.exp(target.log_score(["a", "b", "c"]))
    np.testing.assert_allclose(weights, [0, 0.3 * np.exp(1.5), 0.2])
    draws = qr.draw(target, qr.Table({"a": 1, "b": 1, "c": 1}), 100, seed=0)
    assert set(draws.features) == {"not a", "a", "b", "long"}


def test_the_base_inside_a_mixture(tmp_path):
    text = TABLE + "proposal: {mixture: [base, {table: {a: 1, b: 3}, weight: 3}]}\n"
    built = build(recipes.parse(text, "x.yaml"), tmp_path)
    assert built.proposal.components[0] is built.base
    law = 0.25 * np.array([0.5, 0.5]) + 0.75 * np.array([0.25, 0.75])
    np.testing.assert_allclose(np.exp(built.proposal.log_prob(["a", "b"])), law)


def test_code_in_folders(tmp_path):
    for name, body in (("one", "return x == 'a'"), ("two", "return x == 'b'")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text(f"def f(x):\n    {body}\n")
    text = TABLE + "features: {a: {python: one/mine.py:f}, b: {python: ./two/mine.py:f}}\n"
    recipe = recipes.parse(text, "x.yaml")
    built = build(recipe, tmp_path, allow_code=True)
    assert built.features["a"](["a", "b"]).tolist() == [True, False]
    assert built.features["b"](["a", "b"]).tolist() == [False, True]
    assert list(own_files(recipe, tmp_path)) == ["one/mine.py", "two/mine.py"]


def test_code_that_ends_the_program(tmp_path):
    (tmp_path / "mine.py").write_text("raise SystemExit(3)\n")
    recipe = recipes.parse(TABLE + "features: {a: {python: mine.py:f}}\n", "x.yaml")
    with pytest.raises(qr.errors.RecipeError, match="SystemExit"):
        build(recipe, tmp_path, allow_code=True)


def test_the_revision_of_a_folder(tmp_path):
    (tmp_path / "model").mkdir()
    recipe = recipes.parse("base: {model: model, revision: main}\n", "x.yaml")
    with pytest.raises(qr.errors.RecipeError, match="has no revisions"):
        build(recipe, tmp_path)


def moment(target, feature):
    weight = np.exp(target.log_score(ITEMS))
    return float(weight @ feature(ITEMS) / weight.sum())


def test_a_constraint_is_met_together_with_a_tilt(tmp_path):
    recipe = recipes.parse(BOTH, "x.yaml", fit=20_000)
    assert recipe.unfitted == ["isa"]
    built = build(recipe, tmp_path)
    resolved, target = resolve(recipe, built)
    # The standard error of the fit: of 20,000 draws of the base, tilted.
    fit = qr.constrain(
        qr.Product(built.base, [qr.targets.Tilt(built.features["long"], 3.0)]),
        {built.features["isa"]: 0.5},
        n=20_000,
        seed=0,
    )
    assert abs(moment(target, built.features["isa"]) - 0.5) < 4 * fit.achieved["isa"].se
    assert resolved.coefficients == {"long": 3.0}
    assert list(resolved.fitted) == ["isa"]
    assert resolved.unfitted == []
    again, same = resolve(recipes.parse(recipes.dump(resolved), "y.yaml"), built)
    assert again == resolved
    np.testing.assert_array_equal(same.log_score(ITEMS), target.log_score(ITEMS))
    said = " ".join(asked(resolved))
    assert "isa should be 0.5, by a tilt with lambda" in said
    assert "long is rewarded" in said
    assert "Also measured: never." in said


def test_without_the_tilt_in_the_fit_the_constraint_is_missed(tmp_path):
    """The fit on the base alone, as it was, must fail the check above."""
    recipe = recipes.parse(BOTH.replace("lambda: {long: 3}\n", ""), "x.yaml")
    built = build(recipe, tmp_path)
    fitted, _ = resolve(recipe, built)
    _, target = resolve(fitted.model_copy(update={"coefficients": {"long": 3.0}}), built)
    assert moment(target, built.features["isa"]) == pytest.approx(0.903, abs=0.01)
