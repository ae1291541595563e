"""The script that trains the masked model: at a size of seconds, stopped, resumed and exported."""

import dataclasses
import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parents[2] / "training"))

import corpus  # noqa: E402
import masked  # noqa: E402
import trainer  # noqa: E402
from from_causal import build_masked  # noqa: E402
from transformers import GPT2LMHeadModel  # noqa: E402

import quasir as qr  # noqa: E402
from quasir.samplers.rwmh import MASK  # noqa: E402
from tests.text.tiny import gpt2  # noqa: E402

OPTIONS = masked.Options(
    steps=8, batch=8, width=16, layers=2, heads=2, context=14, warmup=2, decay=3, hidden=24
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with texts of a few words and a causal model of them."""
    folder = tmp_path_factory.mktemp("training")
    rng = np.random.default_rng(0)
    words = np.array("she he was born in a small town and played the piano chess".split())
    texts = [" ".join(rng.choice(words, size=rng.integers(3, 14))) for _ in range(300)]
    with gzip.open(folder / "texts.txt.gz", "wt") as file:
        file.write("\n".join(texts))
    tokens = corpus.train_tokenizer(texts, 300)
    model = gpt2(tokens.get_vocab_size(), n_positions=14, scale=0.1)
    end = {"bos_token": corpus.END_OF_TEXT, "eos_token": corpus.END_OF_TEXT}
    trainer.export_model(model, folder / "base", tokens, end)
    return folder


def task_of(made):
    return masked.MaskedTokens(made / "texts.txt.gz", made / "base", OPTIONS)


@pytest.fixture(scope="module")
def trained(made):
    run = made / "run"
    run.mkdir()
    trainer.train(task_of(made), OPTIONS, run, every=4)
    return run


def test_stopped_and_resumed_it_ends_as_if_it_had_never_stopped(made, trained):
    run = made / "stopped"
    run.mkdir()
    task = task_of(made)
    batches = task.batches

    def until_the_sixth(first):
        for number, batch in enumerate(batches(first), first):
            if number == 6:
                raise KeyboardInterrupt
            yield batch

    task.batches = until_the_sixth
    with pytest.raises(KeyboardInterrupt):
        trainer.train(task, OPTIONS, run, every=4)
    assert torch.load(run / "checkpoint.pt", weights_only=True)["step"] == 4
    trainer.train(task_of(made), OPTIONS, run, every=4)
    whole, resumed = (torch.load(at / "checkpoint.pt", weights_only=True) for at in (trained, run))
    assert whole["step"] == resumed["step"] == 8
    for name, value in whole["model"].items():
        torch.testing.assert_close(resumed["model"][name], value, rtol=0, atol=0)
    other = dataclasses.replace(OPTIONS, seed=1)
    with pytest.raises(SystemExit, match="other options"):
        trainer.Trainer(task_of(made), other, run)


def test_steps_and_decay_may_change_until_the_decay_begins(made):
    run = made / "changed"
    run.mkdir()
    first = dataclasses.replace(OPTIONS, steps=20, decay=5)
    begun = trainer.Trainer(task_of(made), first, run)
    batches = begun.task.batches(0)
    for _ in range(6):
        begun.learn(next(batches))
    begun.save()
    for steps, decay in ((30, 5), (9, 3), (20, 14)):
        changed = dataclasses.replace(OPTIONS, steps=steps, decay=decay)
        assert trainer.Trainer(task_of(made), changed, run).step == 6
        shares = [[trainer.schedule(i, o) for i in range(6)] for o in (first, changed)]
        assert shares[0] == shares[1]
    for steps, decay in ((8, 3), (20, 15)):
        late = dataclasses.replace(OPTIONS, steps=steps, decay=decay)
        assert trainer.schedule(5, late) < 1 or trainer.schedule(6, late) < 1
        with pytest.raises(SystemExit, match="other options"):
            trainer.Trainer(task_of(made), late, run)


def test_it_learns(trained):
    losses = [json.loads(line) for line in (trained / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in losses] == [4, 8]
    assert losses[1]["held_out_loss"] < losses[0]["held_out_loss"]


def test_what_is_exported_edits_the_texts_of_the_base(made, trained, monkeypatch):
    monkeypatch.setattr("masked_card.EXAMPLES", ("she was born in<|mask|> small town",))
    folder = made / "exported"
    masked.export(task_of(made), made / "texts.txt.gz", trained, folder)
    base = qr.text.CausalLM(str(made / "base"), max_tokens=12, device="cpu")
    editor = qr.text.MaskedLM(str(folder), base=base, device="cpu")
    assert editor.max_tokens == OPTIONS.context
    own, shared = editor.tokenizer.get_vocab(), base.tokenizer.get_vocab()
    assert {token: own[token] for token in shared} == shared
    assert set(own) - set(shared) == {masked.MASK}
    log_probs = editor.log_token_probs([(5, MASK, 7)], np.array([1]))
    assert np.exp(log_probs).sum() == pytest.approx(1.0, abs=1e-6)
    assert (log_probs[0, [own[masked.MASK], own[corpus.END_OF_TEXT]]] == -np.inf).all()
    chain = qr.RWMH(base, base, editor, reset=4).sample(5, seed=0)
    assert all(len(item.token_ids) <= 12 for item in chain.items)
    card, facts = (
        (folder / "README.md").read_text(),
        json.loads((folder / "training.json").read_text()),
    )
    assert f"{facts['held_out_loss_of_a_single_mask']:.4f}" in card
    assert "she was born in<|mask|> small town" in card
    assert "python training/masked.py --data biographies.txt.gz" in card
    assert "float16" in (folder / "config.json").read_text()


def test_the_causal_model_is_in_it():
    """With a causal mask, its states are those of the GPT-2 that it begins as."""
    causal = gpt2(40, n_positions=14, scale=0.3)
    model = build_masked(causal, 41, 4 * 16, 0.0, seed=0).eval()
    ids = torch.randint(0, 40, (3, 9), generator=torch.Generator().manual_seed(0))
    ahead = torch.ones(9, 9).triu(1) * torch.finfo(torch.float32).min
    look_back = ahead.expand(3, 1, 9, 9)
    with torch.no_grad():
        ours = model.bert(ids, attention_mask=look_back).last_hidden_state
        theirs = causal.transformer(ids).last_hidden_state
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
        both_sides = model.bert(ids).last_hidden_state
    assert (both_sides - theirs).abs().max() > 0.01


def test_the_largest_units_are_kept():
    causal = gpt2(40, n_positions=14, scale=0.3)
    with torch.no_grad():
        causal.transformer.h[0].mlp.c_proj.weight[10:] *= 1e-3
    model = build_masked(causal, 40, 10, 0.0, seed=0)
    kept = model.bert.encoder.layer[0].intermediate.dense.weight
    torch.testing.assert_close(kept, causal.transformer.h[0].mlp.c_fc.weight[:, :10].T)


def test_the_base_must_have_the_options_of_the_run(made):
    assert isinstance(GPT2LMHeadModel.from_pretrained(made / "base"), GPT2LMHeadModel)
    options = dataclasses.replace(OPTIONS, layers=3)
    with pytest.raises(SystemExit, match="width, layers and heads"):
        masked.MaskedTokens(made / "texts.txt.gz", made / "base", options).build()


def test_masks_are_where_the_labels_are():
    rng = np.random.default_rng(0)
    texts = [np.arange(1, 9), np.arange(20, 24)]
    inputs, attention, labels = masked.mask_texts(texts, np.array([0.25, 0.0]), 50, 0, rng)
    assert inputs.shape == (2, 10)
    assert attention.sum(dim=1).tolist() == [10, 6]
    hidden = inputs == 50
    assert hidden.sum(dim=1).tolist() == [2, 1]
    assert torch.equal(hidden, labels != corpus.IGNORED_LABEL)
    restored = torch.where(hidden, labels, inputs)
    assert restored[0].tolist() == [0, *range(1, 9), 0]
    assert restored[1].tolist() == [0, *range(20, 24), 0, 0, 0, 0, 0]
