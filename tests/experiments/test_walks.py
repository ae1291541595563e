"""Random walks beside samplers on stored draws, and the figure of a comparison."""

import csv

import numpy as np
import pytest
from experiments.sampler_figure import plot_comparison
from experiments.walks import WALKS, Walk, compare_with_walks, main

import quasir as qr
from quasir.compare import compare
from quasir.compare.comparison import draws_to_hold, run_seed, stretches_for
from quasir.compare.sampler_table import Cost, Stretches
from quasir.core.progress import Quiet
from quasir.runs.active_run import begin, prepare
from quasir.runs.pipeline import draw_all
from tests.cli.helpers import LETTERS
from tests.compare.pools import letters, places

torch = pytest.importorskip("torch")

from tests.text.tiny import gpt2, masked, masked_tokenizer, tokenizer  # noqa: E402


def walk(name, steps=None):
    return Walk(None, name == "rwmh-reset", steps, Quiet())


def test_walks_take_a_start_for_each_chain():
    pool = qr.draw(qr.Table({"a": 1}), qr.Table({"a": 1, "b": 3}), 3000, seed=0)
    possible = float((pool.log_p > -np.inf).mean())
    cost = Cost(1000, 100, 3)
    one, many = map(walk, WALKS)
    assert one.need(50, cost, possible) == draws_to_hold(1, possible)
    assert many.need(50, cost, possible) == draws_to_hold(50, possible)
    share = stretches_for(len(pool), possible, cost, [one, many], n=50, runs=6)
    assert (share.n, share.runs) == (50, 6)
    share = stretches_for(len(pool), possible, cost, [many], n=800, runs=6)
    fewest = min(int((pool.log_p[at] > -np.inf).sum()) for at in places(share))
    assert (share.runs, share.length) == (6, 500)
    assert 50 < share.n < fewest


@pytest.mark.parametrize(
    ("name", "steps", "k", "n"),
    [
        ("rwmh", None, 10, 30),
        ("rwmh", 3600, 10, 20),  # (3600/3 - 1000)/10
        ("rwmh", 300, 10, 1),  # the burn-in alone takes more than 100 steps a run
        ("rwmh", 3600, 2, 30),
        ("rwmh-reset", 3600, 10, 30),
        ("rwmh-reset", 300, 10, 10),
    ],
)
def test_a_budget_of_steps_gives_fewer_samples_but_at_least_one(name, steps, k, n):
    stretches = Stretches(cost=Cost(k, 1000), length=1000, runs=3, n=30, wanted=0)
    assert walk(name, steps).samples(stretches) == n


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
    folder = tmp_path_factory.mktemp("tiny")
    words = tokenizer(("a", "b", "c"), bos="</s>", eos="</s>")
    gpt2(len(words)).save_pretrained(folder / "causal")
    words.save_pretrained(folder / "causal")
    own = masked_tokenizer(words, ("a", "b", "c"))
    masked("bert", len(own), own.pad_token_id).save_pretrained(folder / "masked")
    own.save_pretrained(folder / "masked")
    (folder / "r.yaml").write_text(TINY.format(base=folder / "causal"))
    draw(folder / "r.yaml", folder / "run")
    return folder


def draw(recipe, folder):
    draw_all(begin(prepare(str(recipe), folder)))


def test_random_walks_and_perplexity_of_a_language_model(tiny):
    found = compare_with_walks(
        tiny / "run",
        ["qrs", "imh-reset", "rwmh", "rwmh-reset"],
        [0.2],
        n=12,
        runs=3,
        burn_in=15,
        editor=str(tiny / "masked"),
    )
    rows = {row.sampler: row.to_dict() for row in found.rows}
    assert [row.method for row in found.rows] == [
        "proposal",
        "QRS",
        "IMH-reset-5",
        "RWMH-5",
        "RWMH-reset-5",
    ]
    written = tiny / "run" / "compare"
    assert (written / "samplers.png").read_bytes().startswith(b"\x89PNG")
    assert "| RWMH-reset-5 " in (written / "samplers.md").read_text()
    lm = qr.text.CausalLM(str(tiny / "causal"), max_tokens=5, device="cpu")
    target = (lm * qr.features.words(["b"], name="b")).watch(
        qr.features.length("tokens", name="tokens")
    )
    editor = qr.text.MaskedLM(str(tiny / "masked"), base=lm, device="cpu")
    warm = lm.varied(temperature=1.5)
    # Chains start at the draws of the pool that are possible, each run at its own.
    draws, length = qr.Draws.load(tiny / "run"), found.stretches[0].length
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


def test_an_editor_of_other_tokens_edits_the_text(tiny, capsys):
    """The ids of the store are the proposal's: read as the editor's they would be other words."""
    own = masked_tokenizer(tokenizer(("x", "c", "b", "a")), ("a", "b", "c"))
    masked("bert", len(own), own.pad_token_id).save_pretrained(tiny / "other")
    own.save_pretrained(tiny / "other")
    options = "--samplers rwmh,rwmh-reset --rates 0.2 -n 12 --walk-steps 60 --runs 3 --burn-in 5"
    main([str(tiny / "run"), "--editor", str(tiny / "other"), *options.split()])
    out, err = capsys.readouterr()
    assert "has other tokens than the base" in err
    assert "| RWMH-5 " in out
    with (tiny / "run" / "compare" / "samplers.csv").open() as file:
        walks = list(csv.DictReader(file))[1:]
    # 20 steps a run: a burn-in of 5, then 5 a sample; 2 where three are spent on the wait.
    assert [int(row["n"]) for row in walks] == [3, 10]
    for row in walks:
        assert float(row["moment:b"]) == 1.0
        assert float(row["ppl"]) > 1


def test_walks_need_an_editor_and_texts_of_a_model(tiny, tmp_path):
    with pytest.raises(qr.errors.InputError, match="give --editor NAME"):
        compare_with_walks(tiny / "run", ["qrs", "rwmh"], [0.2])
    with pytest.raises(qr.errors.InputError, match="no sampler is called 'gibbs'"):
        compare_with_walks(tiny / "run", ["gibbs"], [0.2])
    (tmp_path / "r.yaml").write_text(LETTERS)
    draw(tmp_path / "r.yaml", tmp_path / "run")
    with pytest.raises(qr.errors.InputError, match="the base of this run is none"):
        compare_with_walks(tmp_path / "run", ["rwmh"], [0.2], editor="x")


def test_the_figure_has_a_panel_for_each_quantity_and_a_point_for_each_row():
    found = compare(letters(12_000), ["qrs", "imh", "imh-reset"], [0.1, 0.02], n=300, runs=5)
    figure = plot_comparison(found)
    labels = [ax.get_ylabel() for ax in figure.axes]
    assert labels == [
        "% not y",
        "% vowel",
        "long",
        "% unique",
        "Self-BLEU-5, words (%)",
        "TVD to p, where known",
    ]
    unique = figure.axes[labels.index("% unique")]
    drawn = {c.get_label(): c.lines[0].get_xydata() for c in unique.containers}
    assert set(drawn) == {"proposal q", "QRS", "IMH", "IMH-reset"}
    for sampler, name in (("qrs", "QRS"), ("imh", "IMH")):
        rows = sorted(
            (row for row in found.rows if row.sampler == sampler),
            key=lambda row: row.acceptance_rate,
        )
        np.testing.assert_allclose(
            drawn[name][:, 1], [100 * row.cells["unique"].runs.mean for row in rows]
        )
        # Points are set apart by a few per cent, and no more.
        np.testing.assert_allclose(
            drawn[name][:, 0], [row.acceptance_rate for row in rows], rtol=0.06
        )
