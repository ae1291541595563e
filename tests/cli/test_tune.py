"""`quasir tune`: the tuned proposal is in the run, and the run draws from it."""

import json

import pytest
import torch

import quasir as qr
from quasir import recipes
from tests.cli.helpers import POISSONS, advice_in, follow, quasir
from tests.text.tiny import gpt2, tokenizer

RECIPE = """\
about: Texts that begin with a rare letter.
base: tiny
features:
  rare: {search: "^c"}
  vowel: {contains: a}
want: {rare: 1, vowel: 0.7}
fit: 16384
draws: 4096
max_tokens: 5
choose: {tvd: 0.1}
samples: 50
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a recipe, and beside it the tiny model that is its base."""
    folder = tmp_path_factory.mktemp("tune")
    words = tokenizer(("a", "b", "c", "d"))
    model = gpt2(len(words), scale=0.7)
    with torch.no_grad():
        model.transformer.wte.weight[words.convert_tokens_to_ids("c")] *= -1.0
    model.save_pretrained(folder / "tiny")
    words.save_pretrained(folder / "tiny")
    (folder / "rare.yaml").write_text(RECIPE)
    return folder


def test_the_run_draws_from_what_was_tuned(folder, tmp_path):
    run = tmp_path / "run"
    options = ("--out", run, "--steps", 40, "--draws", 1024)
    out, err = quasir("tune", folder / "rare.yaml", *options)
    assert "quasir run" in out
    assert "KL" in err
    assert "samples/s" in err
    assert "fitting lambda again on 16,384 draws of the tuned proposal" in err
    tuned, base = recipes.read(run / "recipe.yaml").proposal.mixture
    assert (tuned.model, tuned.weight) == ("proposal", base.weight)
    assert (run / "proposal" / "learning.png").read_bytes().startswith(b"\x89PNG")
    again, quiet = quasir("tune", folder / "rare.yaml", *options, "--json")
    assert json.loads(again)["evaluations"][0]["step"] == 0
    assert "tuned already" in quiet
    (folder / "other.yaml").write_text(RECIPE.replace("^c", "^d"))
    _, err = quasir("tune", folder / "other.yaml", *options, code=1)
    assert "features was" in err
    # The run may be moved: its proposal moves with it.
    moved = run.rename(tmp_path / "moved")
    quasir("draw", moved)
    tuned = qr.tradeoff(qr.Draws.load(moved)).proposal.kl
    base = qr.text.CausalLM(str(folder / "tiny"), max_tokens=5)
    vowel = recipes.read(moved / "recipe.yaml").fitted["vowel"]
    target = base * qr.features.search("^c") * qr.tilt(qr.features.contains("a"), vowel)
    plain = qr.tradeoff(qr.draw(target, base, 4096, seed=0)).proposal.kl
    assert plain.value - tuned.value > 4 * (plain.se + tuned.se)
    _, err = quasir("tune", folder / "rare.yaml", "--out", moved, code=1)
    assert "holds draws already" in err


def test_an_adapter_is_put_on_the_base(folder, tmp_path):
    run = tmp_path / "my run"
    options = ("--out", run, "--steps", 2, "--draws", 1024, "--lora", 2)
    out, _ = quasir("tune", folder / "rare.yaml", *options)
    tuned, _ = recipes.read(run / "recipe.yaml").proposal.mixture
    assert (tuned.model, tuned.adapter) == (str(folder / "tiny"), "proposal")
    (command,) = advice_in(out)
    assert command == f"quasir run '{run}'"
    follow(command)
    assert len(qr.Draws.load(run)) == 4096


def test_only_a_language_model_is_tuned(tmp_path):
    (tmp_path / "poissons.yaml").write_text(POISSONS)
    _, err = quasir("tune", "poissons.yaml", cwd=tmp_path, code=2)
    assert "only a causal language model" in err
    assert not (tmp_path / "runs" / "poissons" / "recipe.yaml").exists()
