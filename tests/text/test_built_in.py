"""The models that come with the package: small, documented, and good for what they are for."""

import json
from functools import cache

import numpy as np
import pytest

import quasir as qr
from quasir.guides.vocabulary import same_tokenizer
from quasir.samplers.rwmh import MASK

TUNED = {"scientists": "science", "sports": "sports", "female": "female"}
LIMITS = {"general": 8e6, "questions": 6e6, "paraphraser": 6e6, "sentences": 6e6}
FIRST = "How can I be a good geologist?"
SAME = "What should I do to be a great geologist?"
OTHERS = ["How do I read and find my YouTube comments?", "What can make physics easy to learn?"]


@cache
def causal(name, **settings):
    return qr.text.CausalLM(f"quasir/{name}", max_tokens=40, device="cpu", **settings)


def files_of(name):
    folder = qr.text.loading.BUILT_IN[f"quasir/{name}"]
    return folder, [file for file in folder.rglob("*") if file.is_file()]


@pytest.mark.parametrize(
    ("name", "limit"), [("biographies", 8e6), ("biographies-masked", 6e6), *LIMITS.items()]
)
def test_each_is_small_and_safetensors_alone(name, limit):
    _, files = files_of(name)
    assert sum(file.stat().st_size for file in files) <= limit
    assert {file.suffix for file in files} <= {".safetensors", ".json", ".md"}


@pytest.mark.parametrize("name", LIMITS)
def test_each_says_its_terms_and_its_quality(name):
    folder, _ = files_of(name)
    card = (folder / "README.md").read_text()
    facts = json.loads((folder / "training.json").read_text())
    assert f"terms: {facts['terms']}\n" in card
    assert "for research" in facts["terms"]
    assert "(95 % interval)" in card or "95 % intervals" in card


def test_the_tuned_proposals_are_at_most_10_mb_with_a_card():
    found = [files_of(f"biographies-{constraint}") for constraint in TUNED]
    assert sum(file.stat().st_size for _, files in found for file in files) <= 10e6
    assert all("AR at TVD 0.1" in (folder / "README.md").read_text() for folder, _ in found)


def test_the_package_stays_under_40_mb():
    package = files_of("general")[0].parents[2]
    files = (file for file in package.rglob("*") if "__pycache__" not in file.parts)
    assert sum(file.stat().st_size for file in files if file.is_file()) < 40e6


@pytest.mark.parametrize("name", ["biographies", "general", "questions"])
def test_a_causal_model_draws_what_it_scores(name):
    base = causal(name).varied(max_tokens=12)
    batch = base.sample(32, np.random.default_rng(0))
    np.testing.assert_allclose(batch.log_q, base.log_prob(batch.items), atol=1e-3)
    assert base.tokenizer.eos_token_id == base.end
    if name == "biographies":
        assert np.mean(["born" in item.text or "(" in item.text for item in batch.items]) > 0.3


@pytest.mark.parametrize(
    ("name", "text", "worse"),
    [
        ("general", "The film was released in the United States.", "The States in film the was."),
        ("questions", FIRST, "How good I can geologist a be?"),
    ],
)
def test_a_causal_model_prefers_words_in_order(name, text, worse):
    right, wrong = causal(name).varied(max_tokens=24).log_prob([text, worse])
    assert right > wrong + 3


@pytest.fixture(scope="module")
def base_texts():
    return causal("biographies").sample(512, np.random.default_rng(0)).items


@pytest.mark.parametrize("constraint", TUNED)
def test_the_tuned_proposals_meet_their_constraint_more_often(constraint, base_texts):
    feature = qr.features.NAMED[TUNED[constraint]]
    tuned = causal("biographies", adapter=f"quasir/biographies-{constraint}")
    texts = tuned.sample(512, np.random.default_rng(0)).items
    before, after = (float(feature(items).mean()) for items in (base_texts, texts))
    assert after > before + 4 * np.sqrt(0.5 / 512)


def test_the_masked_model_edits_texts_of_the_base():
    base = causal("biographies").varied(max_tokens=24)
    masked = qr.text.MaskedLM("quasir/biographies-masked", base=base, device="cpu")
    rng = np.random.default_rng(0)
    texts = [t for t in masked.encode(base.sample(200, rng).items) if len(t) > 8]
    at = np.array([int(rng.integers(len(text))) for text in texts])
    asked = [(*text[:i], MASK, *text[i + 1 :]) for text, i in zip(texts, at, strict=True)]
    log_probs = masked.log_token_probs(asked, at)
    hidden = np.array([text[i] for text, i in zip(texts, at, strict=True)])
    rows = np.arange(len(texts))
    # The surroundings tell the token that stood there from one that stood in another text.
    found, other = log_probs[rows, hidden], log_probs[rows, np.roll(hidden, 1)]
    assert found.mean() > other.mean() + 2
    samples = qr.RWMH(base * qr.features.female, base, masked, reset=4).sample(8, seed=0)
    assert qr.features.female(samples.items).all()


def test_the_paraphraser_reads_its_source_and_shares_the_tokens_of_the_questions():
    first = qr.text.Seq2SeqLM("quasir/paraphraser", FIRST, max_tokens=24, device="cpu")
    batch = first.sample(16, np.random.default_rng(0))
    np.testing.assert_allclose(batch.log_q, first.log_prob(batch.items), atol=1e-3)
    others = [float(first.given(source).log_prob([SAME])[0]) for source in OTHERS]
    assert first.log_prob([SAME])[0] > max(others) + 3
    assert same_tokenizer(first.tokenizer, causal("questions").tokenizer)


def test_the_embedding_finds_the_same_meaning():
    import torch

    library = pytest.importorskip("sentence_transformers")
    kind = {"dtype": torch.float32}
    folder, _ = files_of("sentences")
    model = library.SentenceTransformer(str(folder), device="cpu", model_kwargs=kind)
    feature = qr.features.similarity(FIRST, embed=model.encode)
    same, *others = feature([SAME, *OTHERS])
    assert same > max(others) + 0.2
    assert feature([FIRST])[0] == pytest.approx(1, abs=1e-5)
