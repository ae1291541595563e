"""The experiments of the paper: their tools, their page, and all of them, tiny, to the end."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from experiments.controlled import Pool, with_paper
from experiments.order import ORDER
from experiments.page import page

import quasir as qr
from experiments import fig2, fig5, plots, results

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


def test_fig2_resumes_and_notices_a_wrong_target(tmp_path, monkeypatch):
    place = results.Place(tmp_path, 400)
    first = fig2.run(place)
    shards = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    assert len(shards) == fig2.EXPERIMENTS
    assert fig2.run(place).rows == first.rows
    assert {path: path.stat().st_mtime_ns for path in shards} == shards
    assert first.verdict.startswith("They agree")
    right = fig2.exact
    monkeypatch.setattr(fig2, "exact", lambda betas: right(1.1 * np.asarray(betas)))
    assert fig2.run(place).verdict.startswith("They differ")


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


def test_samples_are_those_of_algorithm_2(tmp_path):
    recipe = {"base": {"poisson": 11}, "proposal": {"poisson": 10}}
    pool = Pool(results.Place(tmp_path, 5000).pool("poissons", recipe))
    sampler = qr.IncrementalQRS(qr.Table({0: 1.0}), qr.Table({0: 1.0}), acceptance_rate=0.1)
    expected = sampler.replay(pool.draws, 500)
    assert [pool.draws.items[i] for i in pool.kept(0.1)] == list(expected.items)
    assert pool.kept(0.001) is None  # fewer than ten samples


def test_a_number_of_the_paper_belongs_to_a_row():
    rows = [("TVD", "", "0.1")]
    assert with_paper(rows, {"TVD": "0.2"}) == [("TVD", "0.2", "0.1")]
    with pytest.raises(KeyError, match="no row"):
        with_paper(rows, {"TDV": "0.2"})


def test_the_page_has_every_result_and_names_what_is_missing(tmp_path):
    result = results.Result(title="T", rows=[("w", "1", "2")], draws={"p": 10}, verdict="V.")
    results.Place(tmp_path, 10).write("fig2", result)
    text = page(tmp_path)
    assert "## T\n\nV.\n\n    python -m experiments.fig2 --draws 10\n\nDraws: p: 10." in text
    assert "| w | 1 | 2 |" in text
    assert f"Not run yet: {', '.join(name for name in ORDER if name != 'fig2')}." in text


def test_the_page_begins_with_links_and_the_size_of_its_runs(tmp_path):
    result = results.Result(
        title="Fig. 9 (`fig:x`): 50 % so",
        rows=[("w", "1", "2")],
        draws={"a": 10, "steps of a walk": 5},
        verdict="It is 0.5 here. And more.",
        bounds=[("at AR 0.1", "0.1", "0.2", "0.3")],
    )
    small, large = results.Place(tmp_path, 10), results.Place(tmp_path, 30_000)
    small.write("fig2", result)
    assert "This page comes from small runs: 10 texts, in 1 pools." in page(tmp_path)
    large.write("fig3", result)
    text = page(tmp_path)
    assert "This page comes from large runs: 10 texts" in text  # the two share their pool
    assert "And more. In the paper's source: `fig:x`." in text
    assert text.count("| at AR 0.1 | 0.1 | 0.2 | 0.3 |") == 2
    assert "| [Fig. 9: 50 % so](#fig-9-50--so) | It is 0.5 here. |" in text


def test_what_top_k_cuts_is_seen_by_a_proposal_that_does_not_cut(tmp_path):
    place, question = results.Place(tmp_path, 1200), fig5.QUESTIONS[0]
    pools = {
        name: Pool(place.pool(name, recipe, 300, context=question))
        for name, recipe in fig5.recipes(None).items()
    }
    assert list(pools) == ["mixture", "top-30"]
    assert fig5.out_of_support(pools["top-30"], question).value == 0  # its own draws cannot show it
    assert 0 < fig5.out_of_support(pools["mixture"], question).value < 1


def test_a_round_trip_takes_the_models_that_are_given():
    made = fig5.recipes(("there", "back"))["round trip"]
    assert made["proposal"]["round_trip"]["there"] == "there"
    assert made["base"] == "quasir/questions"


def test_each_figure_and_table_has_its_file():
    for name in ORDER:
        assert callable(importlib.import_module(f"experiments.{name}").run)


@pytest.mark.slow
def test_all_of_them_run_to_their_end(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "experiments", "--draws", "2048", "--out", str(tmp_path)],
        cwd=ROOT,
        check=True,
    )
    for name in ORDER:
        content = json.loads((tmp_path / f"{name}.json").read_text())
        assert content["rows"]
        assert all(n > 0 for n in content["draws"].values())
        assert content["figure"] is None or (tmp_path / content["figure"]).stat().st_size > 5000
    assert "Not run yet" not in page(tmp_path)
