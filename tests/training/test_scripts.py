"""The scripts that train the built-in models, from the command line, at a size of seconds."""

import gzip
import importlib
import json
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parents[2] / "training"))

import quasir as qr  # noqa: E402
from quasir.guides.vocabulary import same_tokenizer  # noqa: E402

SMALL = "--steps 6 --batch 8 --width 16 --heads 2 --layers 1 --warmup 2 --decay 3 --threads 1"
EVERY = "--every 3 --context 16"
CAUSAL = "--vocabulary 300 --draws 40"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return a folder with made-up documents, questions and pairs."""
    folder = tmp_path_factory.mktemp("scripts")
    rng = np.random.default_rng(0)
    words = np.array("town river king film school music army game road church play story".split())

    def sentence():
        return f"The {' '.join(rng.choice(words, 9))} was good."

    documents = [" ".join(sentence() for _ in range(8)) for _ in range(300)]
    pairs = []
    for i in range(400):
        a, b = rng.choice(words, 2)
        other = f"Why is {a} {i} here?\t0" if i % 2 else f"How is the {a} of {b} {i}?\t1"
        pairs.append(f"What is the {a} of {b} {i}?\t{other}")
    questions = [line.split("\t")[0] for line in pairs]
    files = {"general.txt": documents, "questions.txt": questions, "pairs.tsv": pairs}
    for name, lines in files.items():
        with gzip.open(folder / f"{name}.gz", "wt") as file:
            file.write("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def run(data):
    """Return what runs a script to its end, once, and returns the exported folder."""
    return cache(lambda name, more: run_script(data, name, more))


def run_script(data, name, more):
    folder = data / name
    text = "general" if name == "general" else "questions"
    pairs = "" if name == "general" else f"--pairs {data}/pairs.tsv.gz"
    options = f"--data {data}/{text}.txt.gz {pairs} --run {data}/run-{name} --export {folder}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [name, *f"{options} {SMALL} {EVERY} {more}".split()])
        importlib.import_module(name).main()
    return folder


def facts_and_card(folder):
    facts = json.loads((folder / "training.json").read_text())
    card = (folder / "README.md").read_text()
    assert f"terms: {facts['terms']}\n" in card
    assert "for research" in facts["terms"]
    assert f"python training/{folder.name}.py --data" in card
    assert "float16" in (folder / "config.json").read_text()
    return facts, card


@pytest.mark.parametrize(("name", "text"), [("general", "The town"), ("questions", "What is")])
def test_a_causal_model(run, name, text):
    folder = run(name, CAUSAL)
    facts, card = facts_and_card(folder)
    loss = facts["held_out_loss_per_token"]
    assert loss["low"] < loss["value"] < loss["high"]
    assert f"{loss['value']:.4f} ({loss['low']:.4f} to {loss['high']:.4f})" in card
    base = qr.text.CausalLM(str(folder), max_tokens=12, device="cpu")
    assert np.isfinite(base.log_prob([text])).all()


def test_a_card_says_that_its_run_was_stopped(tmp_path):
    stopped = importlib.import_module("trainer").stopped
    torch.save({"step": 300}, tmp_path / "checkpoint.pt")
    assert "stopped at step 300" in stopped(tmp_path, 700)
    assert stopped(tmp_path, 300) == ""


def test_general_cuts_documents_at_sentences():
    cut = importlib.import_module("general").passages
    assert cut("One two. Three four! Five six? Seven", words=4) == ["One two. Three four!"]
    assert cut("One (i.e. two) three. Four five.", words=3) == ["One (i.e. two) three."]


def test_the_embedding(run):
    folder = run("sentences", "--vocabulary 300 --hard 4")
    facts, card = facts_and_card(folder)
    found = facts["held_out_auc"]["labelled"]["quasir/sentences"]
    assert 0 <= found["low"] <= found["value"] <= found["high"] <= 1
    assert f"| quasir/sentences | {found['value']:.3f} (" in card
    embed = importlib.import_module("sentence_card").loader(folder)
    feature = qr.features.similarity("What is the town of king 3?", embed=embed)
    assert feature(["what is THE town of king 3?"])[0] == pytest.approx(1, abs=1e-5)
    assert feature(["Why not?"])[0] < 0.999


def test_the_paraphraser(run):
    base = run("questions", CAUSAL)
    folder = run("paraphraser", f"--denoising 2 --hidden 24 --base {base}")
    facts, card = facts_and_card(folder)
    assert f"| gain a token | {facts['held_out_gain_per_token']['value']:.4f} (" in card
    source = "What is the town of king 3?"
    proposal = qr.text.Seq2SeqLM(str(folder), source, max_tokens=8, top_k=30, device="cpu")
    batch = proposal.sample(16, np.random.default_rng(0))
    np.testing.assert_allclose(batch.log_q, proposal.log_prob(batch.items), atol=1e-3)
    target = qr.text.CausalLM(str(base), max_tokens=8, device="cpu")
    same = same_tokenizer(proposal.tokenizer, target.tokenizer)
    assert same, "texts would have to be encoded again"
    task = importlib.import_module("paraphraser")
    text = np.array([0, *range(1, 200), 0])
    noisy = task.with_noise(text, np.random.default_rng(0))
    assert set(noisy) < set(text)
    assert 0.75 < len(noisy) / len(text) < 0.95
    assert (noisy[[0, -1]] == 0).all()
    assert (np.diff(noisy[1:-1]) < 0).any()
