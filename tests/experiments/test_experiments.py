"""The experiments of the paper: their tools, their page, and all of them, tiny, to the end."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from experiments.models import MODELS
from experiments.page import page
from scipy import stats

import quasir as qr
from experiments import ORDER, fig2, fig3, plots, results, weighing

ROOT = Path(__file__).parents[2]


def test_the_exact_values_are_those_of_the_design():
    found = fig2.exact(np.array([0.5, 1, 2, 3, 4]))
    tvd = [0.12294066, 0.07492242, 0.00353111, 0.00015500, 0.00001133]
    np.testing.assert_allclose(found["tvd"], tvd, atol=5e-9)
    rates = [0.999496, 0.876849, 0.498182, 0.333282, 0.249997]
    np.testing.assert_allclose(found["acceptance_rate"], rates, atol=5e-7)
    bounds = [0.99508413, 0.54011130, 0.03219052, 0.00104235, 0.00008205]
    np.testing.assert_allclose(found["tvd_bound"], bounds, atol=5e-9)
    assert (found["tvd"] <= found["truncated_mass"]).all()
    assert (found["truncated_mass"] <= found["tvd_bound"]).all()
    kl = [0.04814649, 0.01988471, 0.00048655, 0.00001831, 0.00000121]
    np.testing.assert_allclose(found["kl"], kl, atol=5e-9)


def test_fig2_notices_a_wrong_target(tmp_path, monkeypatch):
    place = results.Place(tmp_path, 0)
    monkeypatch.setattr(fig2, "DRAWS", 4000)
    assert fig2.run(place).verdict.startswith("Agrees")
    right = fig2.exact
    monkeypatch.setattr(fig2, "exact", lambda betas: right(1.1 * np.asarray(betas)))
    assert fig2.run(place).verdict.startswith("Differs")


def test_a_proposal_is_judged_on_the_draws_of_another():
    """TVD by texts that stand for p is the exact one, here of two Poissons, and so is its rate."""
    p, far = (qr.from_scipy(stats.poisson(rate)) for rate in (11, 13))
    draws = qr.draw(p, far, 4000, seed=0)
    log_q = stats.poisson(10).logpmf(draws.items)
    found = weighing.judge(draws, log_q, 0.0)
    betas = np.geomspace(0.9, 4, 40)
    truth = fig2.exact(betas)
    exactly = np.interp(
        -np.log(weighing.RATES), -np.log(truth["acceptance_rate"]), truth["tvd"], left=np.nan
    )
    known = (weighing.RATES < 0.85) & (weighing.RATES > 0.26)
    assert (np.abs(found.tvd - exactly) < 2 * (found.high - found.low) + 1e-4)[known].all()
    wrong = weighing.judge(draws, stats.poisson(9.5).logpmf(draws.items), 0.0)
    assert not (np.abs(wrong.tvd - exactly) < 2 * (wrong.high - wrong.low) + 1e-4)[known].all()
    assert ((found.low <= found.tvd + 1e-9) & (found.tvd <= found.high + 1e-9))[known].all()
    x = np.arange(100)
    tvd = np.abs(stats.poisson(11).pmf(x) - stats.poisson(10).pmf(x)).sum() / 2
    assert found.of_q == pytest.approx(tvd, abs=0.02)


def test_texts_are_chosen_by_their_weights_without_a_bias(monkeypatch):
    """Z by the few texts that all proposals score is right on average; without chances it is not.

    P is 3 on even numbers of a Poisson; one proposal has most of the texts, and little of p.
    """
    proposals = {"near": stats.poisson(12), "far": stats.poisson(30)}
    sizes, exact = {"near": 100, "far": 3000}, 3 * (1 + np.exp(-22)) / 2
    monkeypatch.setattr(fig3, "JUDGED", 40)
    found, wrong, numbers = [], [], []
    for seed in range(300):
        rng, pools, chosen = np.random.default_rng(seed), {}, {}
        for name, q in proposals.items():
            x = q.rvs(sizes[name], random_state=rng)
            log_p = np.where(x % 2 == 0, np.log(3) + stats.poisson(11).logpmf(x), -np.inf)
            draws = qr.Draws.from_arrays(log_p=log_p, log_q=q.logpmf(x), items=x)
            pools[name] = SimpleNamespace(draws=draws)
        chosen = fig3.heavy(pools, seed)
        x = np.concatenate([pools[name].draws.items[at] for name, (at, _) in chosen.items()])
        kept = fig3.stand_for_p(pools, chosen, {n: q.logpmf(x) for n, q in proposals.items()})
        chances = np.concatenate([log_kept for _, log_kept in chosen.values()])
        found.append(np.exp(kept.log_ratio).sum() / 3100)
        wrong.append(np.exp(kept.log_ratio + chances).sum() / 3100)
        numbers.append(len(kept))
    se = np.std(found) / np.sqrt(len(found))
    assert np.mean(found) == pytest.approx(exact, abs=4 * se)
    assert se < 0.05
    assert np.mean(wrong) < exact - 10 * se
    assert np.mean(numbers) < 42


def test_levels_reach_the_lowest_rate():
    draws = qr.Draws.from_arrays(log_p=np.log([0.2, 0.3, 0.1]), log_q=np.log([0.5, 0.3, 0.2]))
    curve = qr.tradeoff(draws, log_betas=plots.levels(draws))
    assert curve.acceptance_rate.value[-1] == pytest.approx(plots.LOWEST)
    assert curve.acceptance_rate.value[0] == 1.0


def test_no_zero_is_silent():
    unseen = qr.Estimate(0.0, float("nan"), 0.0, 0.012)
    assert results.cell(unseen) == "0 on these draws, at most 0.012 (95 %)"
    assert results.cell(qr.Estimate(0.0, 0.0, 0.0, 0.0, proved=True)) == "0, for certain"
    assert results.cell(qr.Estimate(float("nan"), float("nan"), 0.0, 1.0)) == "unknown"


def test_a_pool_resumes_and_no_draws_take_it_as_it_is(tmp_path):
    recipe = {"base": {"poisson": 11}, "proposal": {"poisson": 10}}
    folder = results.Place(tmp_path, 400).pool("p", recipe)
    first = qr.Draws.load(folder)
    assert results.Place(tmp_path, 0).pool("p", recipe) == folder
    results.Place(tmp_path, 2000).pool("p", recipe)
    more = qr.Draws.load(folder)
    assert (len(first), len(more)) == (400, 2000)
    np.testing.assert_array_equal(more.log_u[:400], first.log_u)


def test_the_committed_page_is_what_the_committed_results_make():
    written = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    assert written == page(ROOT / "docs" / "paper")
    assert len(written.split()) <= 3500
    assert "figure only" not in written


@pytest.mark.slow
def test_the_experiments_run_to_their_end_with_the_papers_architectures(hub):
    """The hub is a folder: a name such as facebook/wmt19-en-de is a folder in it, too."""
    assert MODELS["paper"].round_trip == ("facebook/wmt19-en-de", "facebook/wmt19-de-en")
    command = [sys.executable, "-c", SMALL, "--draws", "1024", "--large", "1024"]
    command += ["--models", "paper", "--out", "out"]
    subprocess.run(command, cwd=hub, check=True)
    for name in ORDER:
        content = json.loads((hub / "out" / f"{name}.json").read_text())
        assert callable(importlib.import_module(f"experiments.{name}").run)
        assert all(n > 0 for n in content["draws"].values())
        assert content["figure"] is None or (hub / "out" / content["figure"]).stat().st_size > 5000
    assert "Not run yet" not in page(hub / "out")


SMALL = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import experiments.constrained, experiments.fig2, experiments.paraphrases
import experiments.samplers, experiments.words
experiments.constrained.STEPS, experiments.constrained.ROUND = 20, 1024
experiments.paraphrases.ABOVE, experiments.paraphrases.TOKENS = -1.0, 6
experiments.paraphrases.BASE_TOKENS = 12
experiments.samplers.WALK_STEPS = 200
experiments.words.STEPS = 4
experiments.fig2.DRAWS = 4000
from experiments.__main__ import main
main()
"""
"""Less tuning and shorter walks, and every text is near: random models know no paraphrases."""


@pytest.fixture
def hub(tmp_path):
    """Return a folder with random models of the architectures that the paper names."""
    torch = pytest.importorskip("torch")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        FSMTConfig,
        FSMTForConditionalGeneration,
        MPNetConfig,
        MPNetModel,
    )

    from tests.text.tiny import gpt2, masked_tokenizer, tokenizer

    words = ("of", "Wikileaks", "amazing", "scientist", "athlete", "she", "he", "her", "his")
    own = tokenizer(words, bos="</s>", eos="</s>", pad="<pad>")
    torch.manual_seed(0)
    made = {
        "gpt2": gpt2(len(own), scale=0.1, n_positions=64),
        "mkhalifa/gpt2-biographies": gpt2(len(own), seed=1, scale=0.1, n_positions=64),
    }
    shared = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    size = {"src_vocab_size": len(own), "tgt_vocab_size": len(own), "langs": ["en", "de"]}
    shared["max_position_embeddings"] = 64
    ends = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 1, "decoder_start_token_id": 0}
    for name in MODELS["paper"].round_trip:
        feed = {"encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
        config = FSMTConfig(**shared, **heads, **size, **ends, **feed, forced_eos_token_id=None)
        made[name] = FSMTForConditionalGeneration(config)
    for name, model in made.items():
        model.save_pretrained(tmp_path / name)
        own.save_pretrained(tmp_path / name)
    editor = masked_tokenizer(own, words)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    bert = BertConfig(vocab_size=len(editor), intermediate_size=32, **shape)
    BertForMaskedLM(bert).save_pretrained(tmp_path / "bert-base-cased")
    editor.save_pretrained(tmp_path / "bert-base-cased")
    config = MPNetConfig(vocab_size=len(editor), intermediate_size=32, **shape)
    MPNetModel(config).save_pretrained(tmp_path / "mpnet")
    editor.save_pretrained(tmp_path / "mpnet")
    inner = Transformer(str(tmp_path / "mpnet"))
    pooled = Pooling(16)
    SentenceTransformer(modules=[inner, pooled]).save(str(tmp_path / MODELS["paper"].sentences))
    return tmp_path
