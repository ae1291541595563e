"""From a recipe to the objects that it names."""

import numpy as np
import pytest
import torch

import quasir as qr
from quasir import recipes
from quasir.recipes.building import build, resolve
from tests.text.tiny import gpt2, t5, tokenizer


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


def test_a_proposal_without_a_model(folder):
    with pytest.raises(qr.errors.RecipeError, match="names no model"):
        built("base: {poisson: 3}\nproposal: {prompt: x}\n", folder)
