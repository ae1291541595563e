"""Causal models small enough to list every text: draws have the probability that is scored."""

import json
import math
import sys

import numpy as np
import pytest
import torch

import quasir as qr
from tests.statistical.goodness import fits
from tests.text.tiny import (
    by_hand,
    check_draws,
    check_rows,
    distribution,
    every_text,
    gpt2,
    llama,
    tokenizer,
)

WARPS = [
    {},
    {"temperature": 0.7},
    {"top_k": 2},
    {"top_p": 0.8},
    {"temperature": 1.3, "top_k": 3, "top_p": 0.9},
    {"top_k": 100, "top_p": 1.0},
]
TOKENIZERS = {
    "pad is eos": {"bos": "<s>", "eos": "</s>", "pad": "</s>"},
    "one for all": {"bos": "<e>", "eos": "<e>", "pad": "<e>"},
    "all different": {"bos": "<s>", "eos": "</s>", "pad": "<p>"},
    "no bos": {"bos": None, "eos": "</s>", "pad": None},
}
MODELS = {"gpt2": gpt2, "llama": llama}


def make(kind="gpt2", tokens="one for all", words=("a", "b"), limit=4, **settings):
    tok = tokenizer(words, **TOKENIZERS[tokens])
    model = MODELS[kind](len(tok))
    return qr.text.CausalLM(model=model, tokenizer=tok, max_tokens=limit, **settings)


PROMPTS = ["a", "a b b a b"]
CASES = [
    *WARPS,
    *({"tokens": name} for name in TOKENIZERS),
    *({"prompt": prompt} for prompt in PROMPTS),
    *({"limit": limit} for limit in (1, 2, 3)),
]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("settings", CASES, ids=str)
def test_draws_under_every_setting(kind, settings):
    check_draws(make(kind, **settings))


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_prompt_matters(prompt):
    lm = make().prompted(prompt)
    assert len(lm.prefix) == 1 + len(prompt.split())
    assert not np.allclose(distribution(lm), distribution(make()), atol=1e-3)


def test_a_text_that_is_cut_has_no_end_token():
    """Dropping the end token's term where pad and eos are one was seen to sum to 3.6."""
    lm = make(limit=2)
    cut, whole = every_text(lm).take(np.array([-1])), every_text(lm).take(np.array([1]))
    assert len(cut[0].token_ids) == 2
    ids = list(whole[0].token_ids)
    with_end = by_hand(lm, ids)
    longer = lm.varied(max_tokens=1)
    assert longer.log_prob(whole)[0] > with_end  # cut there, it needs no end token
    assert lm.log_prob(whole)[0] == pytest.approx(with_end, abs=1e-4)


def test_what_cannot_come_out_has_probability_0():
    lm = make(limit=3)
    texts = qr.text.Texts.of([[1, 1, 1, 1], [1, lm.end], [2, 2, 2], []], lm.tokenizer)
    log_prob = lm.log_prob(texts)
    assert log_prob[:2].tolist() == [-math.inf, -math.inf]
    assert np.isfinite(log_prob[2:]).all()


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("rows", [1, 7])
def test_the_batch_size_changes_no_draw_and_no_score(kind, rows):
    """And masked or padded positions never change a score."""
    check_rows(make(kind), make(kind), rows)


def test_rows_that_end_leave_room_for_others():
    """Texts that end at once must not hold the batch: few steps for many short draws."""
    lm, steps = make(limit=4), []
    lm._rows = 8
    inner = lm.model.base_model.forward

    def counting(*args, **kwargs):
        steps.append(len(kwargs["input_ids"]))
        return inner(*args, **kwargs)

    lm.sample(1, np.random.default_rng(1))  # the prompt is read once
    lm.model.base_model.forward = counting
    batch = lm.sample(400, np.random.default_rng(0))
    # A token that is neither first nor last is fed once; all rows are busy but for the end.
    fed = int(np.maximum(batch.items.lengths - (batch.items.lengths == 4), 0).sum())
    assert sum(steps) == fed
    assert len(steps) <= fed / 8 + 2 * lm.max_tokens


def test_items():
    lm = make(words=("alpha", "beta"))
    items = lm.sample(200, np.random.default_rng(0)).items
    first = next(item for item in items if item.token_ids)
    assert str(first) == first.text
    assert set(first.text.split()) <= {"alpha", "beta"}
    i = [item.token_ids for item in items].index(first.token_ids)
    assert items[i] == first
    assert [item.text for item in items][:50] == [items[j].text for j in range(50)]
    joined = qr.text.Texts.concatenate([items, items.take(np.array([3, 1]))])
    assert joined[201] == items[1]


def test_strings_and_other_tokenizers_are_scored_by_their_text():
    lm = make(words=("a", "b"))
    other = make(tokens="all different", words=("a", "b"))
    texts = other.encode(["a b", "b"])
    assert texts.ids.tolist() != lm.encode(["a b", "b"]).ids.tolist()
    np.testing.assert_allclose(lm.log_prob(texts), lm.log_prob(["a b", "b"]))
    np.testing.assert_allclose(lm.log_prob(list(lm.encode(["b a"]))), lm.log_prob(["b a"]))
    assert len(lm.log_prob([])) == 0


def test_a_lora_adapter(tmp_path):
    from peft import LoraConfig, get_peft_model

    base = make()
    folder, adapter = tmp_path / "model", tmp_path / "adapter"
    base.model.save_pretrained(folder)
    base.tokenizer.save_pretrained(folder)
    tuned = get_peft_model(
        gpt2(len(base.tokenizer)),
        LoraConfig(r=2, target_modules=["c_attn"], init_lora_weights=False, fan_in_fan_out=True),
    )
    tuned.save_pretrained(adapter)
    plain = qr.text.CausalLM(str(folder), max_tokens=4, device="cpu")
    lm = qr.text.CausalLM(str(folder), max_tokens=4, device="cpu", adapter=str(adapter))
    np.testing.assert_allclose(distribution(plain), distribution(base), atol=1e-5)
    assert np.abs(distribution(lm) - distribution(base)).max() > 0.01
    check_draws(lm)


def test_the_identity_is_of_the_weights_and_not_of_the_place(tmp_path):
    base, other = make(), make("llama")
    found = []
    for lm, folder in ((base, "first/lm"), (base, "second/lm"), (other, "third/lm")):
        lm.model.save_pretrained(tmp_path / folder)
        lm.tokenizer.save_pretrained(tmp_path / folder)
        found.append(
            qr.text.CausalLM(str(tmp_path / folder), device="cpu", max_tokens=4).identity()
        )
    assert found[0] == found[1]
    assert found[0]["name"] == "lm"
    assert {key for key in found[0] if found[0][key] != found[2][key]} == {"weights_sha256"}
    assert base.identity()["name"] is None
    assert base.identity() == make().identity() != other.identity()


def test_bfloat16_weights_are_scored_as_they_are_drawn(tmp_path):
    base = make()
    base.model.save_pretrained(tmp_path)
    base.tokenizer.save_pretrained(tmp_path)
    lm = qr.text.CausalLM(str(tmp_path), max_tokens=3, device="cpu", dtype="bfloat16")
    assert distribution(lm).sum() == pytest.approx(1, abs=2e-2)
    batch = lm.sample(100, np.random.default_rng(0))
    assert batch.log_q.dtype == np.float64


@pytest.mark.parametrize(("bits", "least"), [("8bit", 0.01), ("4bit", 1e-8)])
def test_weights_of_few_bits_draw_and_state_their_noise(bits, least, tmp_path):
    """bitsandbytes rounds activations too, so a float32 model of few bits is not without noise."""
    words = tokenizer(["a", "b", "c", "d"])
    llama(len(words), hidden_size=64, intermediate_size=128).save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    lm = qr.text.CausalLM(str(tmp_path), max_tokens=12, quantization=bits)
    assert lm.model.is_quantized
    items, log_q = lm.sample(200, np.random.default_rng(0))
    assert least < lm.mismatch < 0.5
    assert np.abs(lm.log_prob(items) - log_q).max() < 0.5
    assert qr.text.CausalLM(str(tmp_path), max_tokens=12).mismatch == 0.0


OWN_CODE = """
from transformers import GPT2Config, GPT2LMHeadModel
class OwnConfig(GPT2Config):
    model_type = "own"
class OwnModel(GPT2LMHeadModel):
    config_class = OwnConfig
"""


def test_a_model_with_code_of_its_own_needs_trust(tmp_path, monkeypatch):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "c"))
    monkeypatch.setattr("sys.path", [*sys.path])
    base, folder = make(), tmp_path / "model"
    base.model.save_pretrained(folder)
    base.tokenizer.save_pretrained(folder)
    (folder / "own.py").write_text(OWN_CODE)
    config = json.loads((folder / "config.json").read_text())
    classes = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    own = {"model_type": "own", "architectures": ["OwnModel"], "auto_map": classes}
    (folder / "config.json").write_text(json.dumps(config | own))
    with pytest.raises(qr.errors.InputError, match="trust_remote_code"):
        qr.text.CausalLM(str(folder), max_tokens=4, device="cpu")
    lm = qr.text.CausalLM(str(folder), max_tokens=4, device="cpu", trust_remote_code=True)
    assert type(lm.model).__name__ == "OwnModel"
    np.testing.assert_allclose(distribution(lm), distribution(base), rtol=1e-4)  # another GELU


def test_out_of_memory_halves_the_batch_and_says_so():
    lm = make()
    lm.sample(1, np.random.default_rng(1))  # the prompt is read once
    inner = lm.model.base_model.forward

    def scarce(*args, **kwargs):
        if len(kwargs["input_ids"]) > 128:
            raise torch.OutOfMemoryError("no memory left")
        return inner(*args, **kwargs)

    lm.model.base_model.forward = scarce
    with pytest.warns(qr.errors.QuasirWarning, match="going on with") as told:
        batch = lm.sample(300, np.random.default_rng(3))
    assert [str(one.message) for one in told] == [
        f"out of memory: going on with {rows} texts at once." for rows in (256, 128)
    ]
    np.testing.assert_array_equal(
        batch.items.ids, make().sample(300, np.random.default_rng(3)).items.ids
    )


def test_no_logits_array_of_all_texts(monkeypatch):
    """Scoring holds a few hundred positions' logits, never texts x tokens x vocabulary."""
    import quasir.text.language_model as scoring

    lm = make()
    sizes = []
    head = lm.model.get_output_embeddings()
    head.register_forward_hook(lambda _, given, logits: sizes.append(len(given[0])))
    monkeypatch.setattr(scoring, "LOGITS_AT_ONCE", 10 * lm.model.config.vocab_size)
    monkeypatch.setattr(scoring, "POSITIONS_AT_ONCE", 5)
    texts = every_text(lm)
    log_prob = lm.log_prob(texts)
    assert max(sizes) == 10
    np.testing.assert_allclose(np.exp(log_prob), distribution(make()), atol=1e-6)


def test_quasi_rejection_sampling_of_texts():
    """The whole way, exactly: a prompted proposal, a constrained base, the certificate."""
    lm = make(words=("a", "b", "c"))
    proposal = lm.prompted("b b")
    target = lm * qr.features.contains("b", name="has b")
    texts = every_text(lm)
    a, q = np.exp(lm.log_prob(texts)), np.exp(proposal.log_prob(texts))
    p = a * np.array(["b" in text.text for text in texts])
    draws = qr.draw(target, proposal, 6000, seed=0)
    assert 0 < draws.spared < 6000
    cert = qr.tradeoff(draws).at(beta=0.7)
    p_b = np.minimum(p, 0.7 * q)
    tvd = np.abs(p / p.sum() - p_b / p_b.sum()).sum() / 2
    assert cert.tvd.low <= tvd <= cert.tvd.high
    assert cert.z.low <= p.sum() <= cert.z.high
    assert cert.moments["has b"].value == 1
    samples = qr.QRS(target, proposal, beta=0.7).sample(1500, seed=1)
    support = [t.token_ids for t in texts]
    assert fits([t.token_ids for t in samples.items], support, p_b)
    same = qr.draw(target, lm, 2000, seed=0)
    assert same.spared == 2000


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0},
        {"temperature": -1.0},
        {"top_k": 0},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"limit": 0},
        {"limit": 1000},
    ],
)
def test_settings_that_cannot_be_used(settings):
    with pytest.raises(qr.errors.InputError):
        make(**settings)


def test_models_that_cannot_be_found():
    with pytest.raises(qr.errors.InputError) as error:
        qr.text.CausalLM("no/such-model")
    message = str(error.value)
    assert "`quasir models` lists them" in message
    assert "works offline" in message
    with pytest.raises(qr.errors.InputError, match="name, or a model"):
        qr.text.CausalLM()
    with pytest.raises(qr.errors.InputError, match="dtype"):
        qr.text.CausalLM("quasir/biographies", dtype="int8")
    with pytest.raises(qr.errors.InputError, match="give a prompt"):
        make(tokens="no bos").__class__(
            model=gpt2(2), tokenizer=tokenizer(("a", "b"), None, None), max_tokens=2
        )
