"""The model that comes with the package."""

import numpy as np
import pytest

import quasir as qr
from quasir.samplers.rwmh import MASK

TUNED = {"scientists": "science", "sports": "sports", "female": "female"}


def test_the_built_in_model_draws_what_it_scores():
    base = qr.text.CausalLM("quasir/biographies", max_tokens=12, device="cpu")
    batch = base.sample(32, np.random.default_rng(0))
    np.testing.assert_allclose(batch.log_q, base.log_prob(batch.items), atol=1e-3)
    assert np.mean(["born" in item.text or "(" in item.text for item in batch.items]) > 0.3
    assert base.model is not None
    assert base.tokenizer.eos_token_id == base.end


def test_it_is_at_most_8_mb_and_safetensors_alone():
    folder = qr.text.loading.BUILT_IN["quasir/biographies"]
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 8e6
    assert {file.suffix for file in folder.iterdir()} <= {".safetensors", ".json", ".md"}


def test_a_constraint_on_the_built_in_model():
    base = qr.text.CausalLM("quasir/biographies", max_tokens=20, device="cpu")
    target = (base * qr.features.words(["American"])).watch(qr.features.female)
    draws = qr.draw(target, base, 256, seed=0)
    assert draws.spared == 256
    cert = qr.tradeoff(draws).at(beta=1)
    assert 0.05 < cert.acceptance_rate.value < 0.6


@pytest.mark.parametrize("constraint", TUNED)
def test_the_tuned_proposals_meet_their_constraint_more_often(constraint):
    feature = qr.features.NAMED[TUNED[constraint]]
    base = qr.text.CausalLM("quasir/biographies", max_tokens=40, device="cpu")
    tuned = qr.text.CausalLM(
        "quasir/biographies",
        max_tokens=40,
        adapter=f"quasir/biographies-{constraint}",
        device="cpu",
    )
    drawn = [lm.sample(512, np.random.default_rng(0)).items for lm in (base, tuned)]
    before, after = (float(feature(items).mean()) for items in drawn)
    assert after > before + 4 * np.sqrt(0.5 / 512)


def test_the_tuned_proposals_are_at_most_10_mb_with_a_card():
    folders = [qr.text.loading.BUILT_IN[f"quasir/biographies-{constraint}"] for constraint in TUNED]
    assert sum(file.stat().st_size for path in folders for file in path.iterdir()) <= 10e6
    assert all("AR at TVD 0.1" in (path / "README.md").read_text() for path in folders)


def test_the_masked_model_edits_texts_of_the_base():
    base = qr.text.CausalLM("quasir/biographies", max_tokens=24, device="cpu")
    masked = qr.text.MaskedLM("quasir/biographies-masked", base=base, device="cpu")
    rng = np.random.default_rng(0)
    texts = [t for t in masked.encode(base.sample(200, rng).items) if len(t) > 8]
    at = np.array([int(rng.integers(len(text))) for text in texts])
    asked = [(*text[:i], MASK, *text[i + 1 :]) for text, i in zip(texts, at, strict=True)]
    log_probs = masked.log_token_probs(asked, at)
    hidden = np.array([text[i] for text, i in zip(texts, at, strict=True)])
    rows = np.arange(len(texts))
    # What stood there is told from what stood in another text by its surroundings.
    found, other = log_probs[rows, hidden], log_probs[rows, np.roll(hidden, 1)]
    assert found.mean() > other.mean() + 2
    samples = qr.RWMH(base * qr.features.female, base, masked, reset=4).sample(8, seed=0)
    assert qr.features.female(samples.items).all()


def test_the_masked_model_is_at_most_6_mb_and_safetensors_alone():
    folder = qr.text.loading.BUILT_IN["quasir/biographies-masked"]
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 6e6
    assert {file.suffix for file in folder.iterdir()} <= {".safetensors", ".json", ".md"}
