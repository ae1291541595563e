"""The experiments of the paper: their tools, their page, and all of them, tiny, to the end."""

from pathlib import Path

import numpy as np
import pytest
from experiments.page import page
from scipy import stats

import quasir as qr
from experiments import fig2, plots, results, weighing

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
