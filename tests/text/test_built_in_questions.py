"""The general model, and the models of the paraphrases, as they come with the package."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import quasir as qr  # noqa: E402
from quasir.guides.vocabulary import same_tokenizer  # noqa: E402

LIMITS = {"general": 8e6, "questions": 6e6, "paraphraser": 6e6, "sentences": 6e6}
FIRST = "How can I be a good geologist?"
SAME = "What should I do to be a great geologist?"
OTHERS = ["How do I read and find my YouTube comments?", "What can make physics easy to learn?"]


def folder_of(name):
    return qr.text.loading.BUILT_IN[f"quasir/{name}"]


@pytest.mark.parametrize("name", LIMITS)
def test_each_is_small_and_says_its_terms_and_its_quality(name):
    files = [file for file in folder_of(name).rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) <= LIMITS[name]
    assert {file.suffix for file in files} <= {".safetensors", ".json", ".md"}
    card = (folder_of(name) / "README.md").read_text()
    facts = json.loads((folder_of(name) / "training.json").read_text())
    assert f"terms: {facts['terms']}\n" in card
    assert "for research" in facts["terms"]
    assert "(95 % interval)" in card or "95 % intervals" in card


def test_the_package_stays_under_40_mb():
    package = folder_of("general").parents[2]
    files = (file for file in package.rglob("*") if "__pycache__" not in file.parts)
    assert sum(file.stat().st_size for file in files if file.is_file()) < 40e6


@pytest.mark.parametrize("name", ["general", "questions"])
def test_a_causal_model_draws_what_it_scores(name):
    base = qr.text.CausalLM(f"quasir/{name}", max_tokens=12, device="cpu")
    batch = base.sample(32, np.random.default_rng(0))
    np.testing.assert_allclose(batch.log_q, base.log_prob(batch.items), atol=1e-3)


@pytest.mark.parametrize(
    ("name", "text", "worse"),
    [
        ("general", "The film was released in the United States.", "The States in film the was."),
        ("questions", FIRST, "How good I can geologist a be?"),
    ],
)
def test_a_causal_model_prefers_words_in_order(name, text, worse):
    base = qr.text.CausalLM(f"quasir/{name}", max_tokens=24, device="cpu")
    right, wrong = base.log_prob([text, worse])
    assert right > wrong + 3


def test_the_paraphraser_reads_its_source_and_shares_the_tokens_of_the_questions():
    proposals = [
        qr.text.Seq2SeqLM("quasir/paraphraser", source, max_tokens=24, device="cpu")
        for source in (FIRST, *OTHERS)
    ]
    batch = proposals[0].sample(16, np.random.default_rng(0))
    np.testing.assert_allclose(batch.log_q, proposals[0].log_prob(batch.items), atol=1e-3)
    given = [float(proposal.log_prob([SAME])[0]) for proposal in proposals]
    assert given[0] > max(given[1:]) + 3
    base = qr.text.CausalLM("quasir/questions", max_tokens=24, device="cpu")
    assert same_tokenizer(proposals[0].tokenizer, base.tokenizer)


def test_the_embedding_finds_the_same_meaning():
    library = pytest.importorskip("sentence_transformers")
    kind = {"dtype": torch.float32}
    model = library.SentenceTransformer(
        str(folder_of("sentences")), device="cpu", model_kwargs=kind
    )
    feature = qr.features.similarity(FIRST, embed=model.encode)
    same, *others = feature([SAME, *OTHERS])
    assert same > max(others) + 0.2
    assert feature([FIRST])[0] == pytest.approx(1, abs=1e-5)
