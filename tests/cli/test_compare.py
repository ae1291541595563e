"""`quasir compare`, from a recipe or a run to tables."""

import csv
import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

import quasir as qr
from quasir.cli.main import app
from quasir.compare import compare
from quasir.compare.sampler_table import samplers_markdown
from tests.cli.helpers import LETTERS
from tests.cli.helpers import quasir as started
from tests.text.tiny import gpt2, tokenizer

FILES = {"samplers.csv", "samplers.md"}
SMALL = ("--rates", "0.1,0.05", "-n", 20, "--runs", 3, "--burn-in", 50)
NAMES = ["qrs", "imh", "imh-reset", "sir"]


def quasir(*arguments, code=0):
    """Run the command in this process, where torch is loaded once; return stdout and stderr."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "80"})
    error = result.exception
    if isinstance(error, qr.errors.QuasirError):
        assert code == 1, error
        return result.stdout, f"{result.stderr}{error}"
    assert result.exit_code == code, f"{result.output}\n{error!r}"
    return result.stdout, result.stderr


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    """Return the folder of a run that the comparison itself has drawn, and what it printed."""
    folder = tmp_path_factory.mktemp("letters")
    (folder / "letters.yaml").write_text(LETTERS)
    given = ("--out", folder / "run", "--samplers", ",".join(NAMES), "--json")
    out, err = started("compare", folder / "letters.yaml", *given, *SMALL)
    assert "drawing: 4,000/4,000" in err
    return folder / "run", json.loads(out)


def test_it_draws_what_the_recipe_asks_for_and_writes_everything(letters):
    run, told = letters
    assert len(qr.Draws.load(run)) == told["pool"] == 4000
    assert {path.name for path in (run / "compare").iterdir()} == FILES


def test_the_table_is_that_of_the_stored_draws(letters):
    run, told = letters
    found = compare(qr.Draws.load(run), NAMES, [0.1, 0.05], n=20, runs=3, burn_in=50)
    expected = [row.to_dict() for row in found.rows]
    assert [{k: v for k, v in row.items() if k != "warnings"} for row in told["rows"]] == expected
    with (run / "compare" / "samplers.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 1 + 2 * len(NAMES)
    for row, ours in zip(rows, expected, strict=True):
        assert row["method"] == ours["method"]
        assert float(row["moment:vowel"]) == ours["moment:vowel"]
        assert float(row["unique_sd"]) == ours["unique_sd"]
        assert (row["tvd"] == "unknown") == (ours["sampler"] not in ("proposal", "qrs"))
    shown = (run / "compare" / "samplers.md").read_text()
    assert "| % vowel (50) " in shown
    assert "PPL is not given: the base is no language model" in shown


def test_a_second_call_draws_nothing_and_prints_the_table(letters):
    run, _ = letters
    shard = run / "draws" / "shard-00000.parquet"
    written = shard.stat().st_mtime_ns
    out, err = quasir("compare", run, "--samplers", "qrs,imh", *SMALL)
    assert shard.stat().st_mtime_ns == written
    assert "drawing" not in err
    assert max(map(len, out.splitlines())) <= 80
    assert "| IMH-20 " in out
    assert f"written: samplers.md and samplers.csv in {run / 'compare'}" in err
    again, _ = quasir("compare", run, "--samplers", "qrs,imh", *SMALL)
    assert again == out


def test_another_recipe_or_seed_is_refused(letters, tmp_path):
    run, _ = letters
    (tmp_path / "r.yaml").write_text(LETTERS.replace("x: 0.4", "x: 0.5"))
    _, err = quasir("compare", tmp_path / "r.yaml", "--out", run, code=1)
    assert "base was" in err
    _, err = quasir("compare", run, "--seed", 3, code=1)
    assert "seed was 0, now 3" in err


def test_draws_saved_from_python(tmp_path):
    rng = np.random.default_rng(0)
    texts = rng.choice(["a b c", "b c", "c d e f"], size=3000)
    log_p = np.log([{"a b c": 0.5, "b c": 0.3, "c d e f": 0.2}[text] for text in texts])
    draws = qr.Draws.from_arrays(log_p, np.full(3000, -np.log(3)), items=texts.tolist())
    draws.save(tmp_path / "run")
    out, _ = quasir("compare", tmp_path / "run", *SMALL)
    found = compare(draws, ["qrs", "imh", "imh-reset"], [0.1, 0.05], n=20, runs=3, burn_in=50)
    assert out == samplers_markdown(found, "run", 80)
    assert "the run has no recipe" in out


TINY = """\
base: tiny
features: {b: {words: [b]}}
want: {b: 1}
proposal: {temperature: 1.5}
max_tokens: 5
draws: 3000
"""


def test_a_language_model_beside_the_recipe_is_loaded_only_to_draw(tmp_path):
    words = tokenizer(("a", "b", "c"), bos="</s>", eos="</s>")
    gpt2(len(words)).save_pretrained(tmp_path / "tiny")
    words.save_pretrained(tmp_path / "tiny")
    (tmp_path / "mine.yaml").write_text(TINY)
    run = tmp_path / "run"
    command = ("compare", tmp_path / "mine.yaml", "--out", run, *SMALL, "--json")
    first, _ = quasir(*command)
    again, err = quasir(*command)
    assert again == first
    assert "drawing" not in err
    base = qr.text.CausalLM(str(tmp_path / "tiny"), max_tokens=5, device="cpu")
    shutil.rmtree(tmp_path / "tiny")
    again, _ = quasir("compare", run, *SMALL, "--json")
    assert again == first
    told = json.loads(again)
    # The stored log_base, without a model, is the perplexity that the model gives.
    draws, length, expected = qr.Draws.load(run), told["stretches"][0]["length"], []
    for start in range(0, 3 * length, length):
        part = draws.take(np.arange(start, start + 200))
        best = np.sort(np.argsort(-part.log_alpha)[:20])
        expected.append(qr.metrics.perplexity([part.items[i] for i in best], base))
    assert told["rows"][1]["ppl"] == pytest.approx(np.mean(expected), rel=1e-5)
    assert told["rows"][1]["ppl_sd"] == pytest.approx(np.std(expected, ddof=1), rel=1e-4)
    # The base has not scored what is impossible, and so not the proposal's draws.
    assert told["rows"][0]["ppl"] is None
    assert any("PPL of proposal is not given" in note for note in told["notes"])
