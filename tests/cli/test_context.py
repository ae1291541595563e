"""`quasir run RECIPE --context TEXT`: the form of the recipe `paraphrase`, with tiny models."""

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")

from quasir import recipes
from tests.cli.helpers import inside, quasir, start
from tests.text import tiny

RECIPE = """\
base: questions
features:
  same: {similarity: {text: "{context}", above: 0.2, model: quasir/sentences}}
want: {same: 1.0}
proposal:
  mixture:
    - {model: paraphraser, source: "{context}", top_k: 2, weight: 0.8}
    - {model: paraphraser, source: "{context}", weight: 0.15}
    - {weight: 0.05}
draws: 512
max_tokens: 4
choose: {acceptance_rate: 0.001}
samples: 3
"""
WORDS = ("how", "why", "good", "geologist", "phone")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the recipe and its models, which share a tokenizer."""
    made = tmp_path_factory.mktemp("paraphrase")
    tokens = tiny.tokenizer(WORDS, bos="</s>", pad="</s>")
    size, end = len(tokens), tokens.eos_token_id
    models = {"questions": tiny.gpt2(size), "paraphraser": tiny.t5(size, end, end)}
    for name, model in models.items():
        model.save_pretrained(made / name)
        tokens.save_pretrained(made / name)
    (made / "again.yaml").write_text(RECIPE)
    return made


@pytest.mark.slow
def test_a_context_makes_a_run_that_keeps_it(folder):
    context = "why good geologist"
    out, _ = quasir("run", "again.yaml", "--context", context, "--json", cwd=folder)
    run = folder / "runs" / "again"
    certificate = json.loads(out)
    assert certificate["n"] == 512
    kept = recipes.read_run(run)
    assert kept.features["same"].similarity.text == context
    assert [part.source for part in kept.proposal.mixture] == [context, context, None]
    names = [model["name"] for model in json.loads((run / "manifest.json").read_text())["models"]]
    assert names[-1] == "quasir/sentences"
    lines = (run / "samples.jsonl").read_text().splitlines()
    assert all(json.loads(line)["features"]["same"] for line in lines)
    # The base has 0.05 of the draws, so no ratio is above 20.
    again, _ = quasir("sample", run, "-n", 1, "--tvd", 0, "--json", cwd=folder)
    assert json.loads(again)
    quasir("run", "again.yaml", "--context", context, cwd=folder)
    quasir("run", run, cwd=folder)
    process = start("run", "again.yaml", "--context", "how phone", cwd=folder)
    _, err = process.communicate(timeout=600)
    assert process.returncode != 0
    assert "is a run of another recipe" in " ".join(err.split())


@pytest.mark.parametrize("command", ["run", "draw", "tune", "compare"])
def test_without_a_context_it_says_what_to_do(folder, command, monkeypatch):
    monkeypatch.chdir(folder)
    code, _, err = inside(command, "again.yaml", "--out", "elsewhere")
    assert code not in (0, None)
    assert "--context" in " ".join(err.split())
    assert not list((folder / "elsewhere").glob("draws/*"))
