"""`quasir compare`, from a recipe or a run to tables and a figure."""

import csv
import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

import quasir as qr
from quasir.cli.main import app
from quasir.compare import compare
from quasir.compare.comparison import run_seed
from quasir.compare.sampler_table import samplers_markdown
from tests.cli.helpers import LETTERS
from tests.cli.helpers import quasir as started
from tests.text.tiny import gpt2, tokenizer

FILES = {"samplers.csv", "samplers.md", "samplers.png"}
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
    out, err = started(
        "compare",
        folder / "letters.yaml",
        "--out",
        folder / "run",
        "--samplers",
        ",".join(NAMES),
        *SMALL,
        "--json",
    )
    assert "drawing: 4,000/4,000" in err
    return folder / "run", json.loads(out)


def test_it_draws_what_the_recipe_asks_for_and_writes_everything(letters):
    run, told = letters
    assert len(qr.Draws.load(run)) == told["pool"] == 4000
    assert {path.name for path in (run / "compare").iterdir()} == FILES == set(told["files"])
    assert (run / "compare" / "samplers.png").read_bytes().startswith(b"\x89PNG")


def test_a_model_beside_the_recipe_is_that_of_the_run(tmp_path):
    words = tokenizer(("a", "b"))
    gpt2(len(words)).save_pretrained(tmp_path / "tiny")
    words.save_pretrained(tmp_path / "tiny")
    text = "base: tiny\nfeatures: {a: {contains: a}}\nwant: {a: 1}\nmax_tokens: 4\ndraws: 2000\n"
    (tmp_path / "mine.yaml").write_text(text)
    run = ("compare", tmp_path / "mine.yaml", "--out", tmp_path / "run", *SMALL)
    first, _ = quasir(*run)
    again, err = quasir(*run)
    assert again == first
    assert "drawing" not in err


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
    assert f"written: {len(FILES)} files in {run / 'compare'}" in err
    again, _ = quasir("compare", run, "--samplers", "qrs,imh", *SMALL)
    assert again == out


def test_runs_and_n_are_lowered_where_the_draws_are_few(letters):
    run, _ = letters
    out, _ = quasir("compare", run, "--rates", "0.1", "-n", 5000, "--runs", 10, "--json")
    told = json.loads(out)
    # 3 stretches of 1,333 are the most that leave ten samples behind a burn-in of 1,000.
    assert (told["rows"][0]["n"], told["rows"][0]["runs"]) == (told["stretches"][0]["n"], 3)
    assert 10 <= told["stretches"][0]["n"] < 40
    assert any("not 10 of 5,000" in note for note in told["notes"])


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--samplers", "rwmh", "--editor", "x"), 1, "the base of this run is none"),
        (("--samplers", "qrs,gibbs"), 1, "no sampler is called 'gibbs'"),
        (("--rates", "0.1,often"), 1, "a rate is 'often'"),
        (("--rates", "0"), 1, "above 0 and at most 1"),
    ],
)
def test_a_wrong_constraint_is_refused_before_anything_is_drawn(tmp_path, options, code, message):
    (tmp_path / "r.yaml").write_text(LETTERS)
    _, err = quasir("compare", tmp_path / "r.yaml", "--out", tmp_path / "run", *options, code=code)
    assert message in err
    assert not (tmp_path / "run").exists()


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
    assert out == samplers_markdown(found, "Samplers at equal cost: run", 80)
    assert "the run has no recipe" in out


TINY = """\
base: {{model: {base}}}
features: {{b: {{words: [b]}}, tokens: {{length: tokens}}}}
want: {{b: 1}}
proposal: {{temperature: 1.5}}
max_tokens: 5
draws: 3000
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Return a folder with a causal model, a masked one of its tokens, and a recipe."""
    pytest.importorskip("torch")
    from tests.text.tiny import gpt2, masked, masked_tokenizer, tokenizer

    folder = tmp_path_factory.mktemp("tiny")
    words = tokenizer(("a", "b", "c"), bos="</s>", eos="</s>")
    gpt2(len(words)).save_pretrained(folder / "causal")
    words.save_pretrained(folder / "causal")
    own = masked_tokenizer(words, ("a", "b", "c"))
    masked("bert", len(own), own.pad_token_id).save_pretrained(folder / "masked")
    own.save_pretrained(folder / "masked")
    (folder / "r.yaml").write_text(TINY.format(base=folder / "causal"))
    return folder


def test_random_walks_and_perplexity_of_a_language_model(tiny):
    out, _ = quasir(
        "compare",
        tiny / "r.yaml",
        "--out",
        tiny / "run",
        "--samplers",
        "qrs,imh-reset,rwmh,rwmh-reset",
        "--editor",
        tiny / "masked",
        *("--rates", "0.2", "-n", 12, "--runs", 3, "--burn-in", 15, "--json"),
    )
    told = json.loads(out)
    rows = {row["sampler"]: row for row in told["rows"]}
    assert [row["method"] for row in told["rows"]] == [
        "proposal",
        "QRS",
        "IMH-reset-5",
        "RWMH-5",
        "RWMH-reset-5",
    ]
    lm = qr.text.CausalLM(str(tiny / "causal"), max_tokens=5, device="cpu")
    target = (lm * qr.features.words(["b"], name="b")).watch(
        qr.features.length("tokens", name="tokens")
    )
    editor = qr.text.MaskedLM(str(tiny / "masked"), base=lm, device="cpu")
    warm = lm.varied(temperature=1.5)
    # Chains start at the draws of the pool that are possible, each run at its own.
    draws, (stretch,) = qr.Draws.load(tiny / "run"), told["stretches"]
    length = stretch["length"]
    possible = draws.log_p > -np.inf
    places = [run * length + np.flatnonzero(possible[run * length :])[:12] for run in range(3)]
    texts = qr.text.Texts(draws.items.ids, draws.items.offsets, lm.tokenizer)
    pool = qr.Draws(log_p=draws.log_p, log_q=draws.log_q, log_u=draws.log_u, items=texts)
    # One draw in so many is possible, and a chain's wait counts as its steps.
    length_of_chain = max(1, 5 - round(1 / possible.mean()) + 1)
    sampler = qr.RWMH(target, warm, editor, reset=length_of_chain)
    chain = sampler.sample_from(pool.take(np.stack(places, 1).ravel()), 36, run_seed(0, 5, 1))
    found = list(chain.items)
    ppl = [qr.metrics.perplexity(found[run::3], lm) for run in range(3)]
    assert rows["rwmh-reset"]["ppl"] == pytest.approx(np.mean(ppl), rel=1e-5)
    assert rows["rwmh-reset"]["ppl_sd"] == pytest.approx(np.std(ppl, ddof=1), rel=1e-4)
    waited = np.mean([places[run][-1] + 1 - run * length for run in range(3)])
    assert rows["rwmh-reset"]["draws_per_sample"] == pytest.approx(
        waited / 12 + length_of_chain - 1
    )
    for name in ("rwmh", "rwmh-reset"):
        assert rows[name]["moment:b"] == 1.0
        assert rows[name]["tvd"] == rows[name]["kl"] == "unknown"
    sampler = qr.RWMH(target, warm, editor, burn_in=15, thin=5, chains=3)
    starts = pool.take(np.array([at[0] for at in places]))
    long = sampler.sample_from(starts, 36, run_seed(0, 5, 0))
    unique = [len(set(list(long.items)[run::3])) / 12 for run in range(3)]
    assert rows["rwmh"]["unique"] == pytest.approx(np.mean(unique))
    # The stored log_base, without a model, is the perplexity that the model gives.
    expected = []
    for run in range(3):
        first = run * length
        part = draws.take(np.arange(first, first + 60))
        best = np.sort(np.argsort(-part.log_alpha)[:12])
        expected.append(qr.metrics.perplexity([part.items[i] for i in best], lm))
    assert rows["qrs"]["ppl"] == pytest.approx(np.mean(expected), rel=1e-5)


def test_no_model_is_loaded_where_the_draws_are_there(tiny):
    run = tiny / "apart"
    quasir("draw", tiny / "r.yaml", "--out", run)
    shutil.copytree(tiny / "causal", tiny / "kept")
    shutil.rmtree(tiny / "causal")
    try:
        out, _ = quasir("compare", run, *SMALL, "--json")
        qrs = json.loads(out)["rows"][1]
        assert 1 < qrs["ppl"] < 100
        # The base has not scored what is impossible, and so not the proposal's draws.
        assert json.loads(out)["rows"][0]["ppl"] is None
        assert any("PPL of proposal is not given" in note for note in json.loads(out)["notes"])
    finally:
        shutil.move(tiny / "kept", tiny / "causal")


def test_an_editor_of_other_tokens_edits_the_text(tiny):
    """The ids of the store are the proposal's: read as the editor's they would be other words."""
    from tests.text.tiny import masked, masked_tokenizer, tokenizer

    own = masked_tokenizer(tokenizer(("x", "c", "b", "a")), ("a", "b", "c"))
    masked("bert", len(own), own.pad_token_id).save_pretrained(tiny / "other")
    own.save_pretrained(tiny / "other")
    run = tiny / "other-run"
    out, err = quasir(
        *("compare", tiny / "r.yaml", "--out", run, "--editor", tiny / "other"),
        *("--samplers", "rwmh,rwmh-reset", "--rates", "0.2", "-n", 12, "--walk-steps", 60),
        *("--runs", 3, "--burn-in", 5, "--json"),
    )
    assert "has other tokens than the base" in err
    walks = json.loads(out)["rows"][1:]
    # 20 steps a run: a burn-in of 5, then 5 a sample; 2 where three are spent on the wait.
    assert [row["n"] for row in walks] == [3, 10]
    for row in walks:
        assert row["moment:b"] == 1.0
        assert row["ppl"] > 1


def test_random_walks_need_an_editor(tiny):
    _, err = quasir(
        *("compare", tiny / "r.yaml", "--out", tiny / "none", "--samplers", "qrs,rwmh"), code=1
    )
    assert "give --editor NAME" in err
    assert not (tiny / "none").exists()
