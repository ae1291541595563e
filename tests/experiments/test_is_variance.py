"""The spread over runs compared with the errors that one run claims."""

import csv
import io

import numpy as np
import pytest
from experiments.is_variance import ABOVE, BETAS, choose_betas, variance
from scipy import stats

import quasir as qr
from quasir.compare.sampler_table import as_csv
from quasir.estimation.estimate import Moment
from tests.compare.pools import letters, poissons
from tests.statistical.goodness import FALSE_ALARM

RUNS = 60


def agrees(spread, factor=1.0):
    """Tell whether an sd over normal runs is what the claimed error says, by chi-square."""
    runs = spread.cell.runs
    statistic = (RUNS - 1) * (runs.sd / (factor * spread.cell.claimed)) ** 2
    p = stats.chi2(RUNS - 1).cdf(statistic)
    return FALSE_ALARM / 2 < p < 1 - FALSE_ALARM / 2


@pytest.mark.parametrize("pool", [poissons(240_000, seed=1), letters(240_000, seed=1)], ids=len)
def test_the_claimed_errors_are_those_of_repeated_runs(pool):
    table = variance(pool, runs=RUNS)
    assert table.draws == 4000
    moving = [s for s in table.spreads if s.cell.claimed > 0]
    assert len(moving) >= 1 + 3 * BETAS
    for spread in moving:
        assert agrees(spread), spread
        assert not agrees(spread, 2.5), spread
        assert not agrees(spread, 0.4), spread


def test_the_means_are_the_exact_values():
    table = variance(poissons(200_000), log_betas=np.log([1.0, 2.0]))
    exact = {1.0: (0.876849, 0.07492242, 0.01988471), 2.0: (0.498182, 0.00353111, 0.00048655)}
    for spread in table.spreads[1:]:
        value = exact[round(np.exp(spread.log_beta))][["AR", "TVD", "KL"].index(spread.quantity)]
        runs = spread.cell.runs
        assert runs.mean == pytest.approx(value, abs=5 * spread.cell.claimed / np.sqrt(10))
    assert table.spreads[0].quantity == "log Z"
    assert table.spreads[0].cell.runs.mean == pytest.approx(0, abs=0.01)


def test_each_number_is_that_of_its_tenth():
    pool = letters(5005)
    table = variance(pool)
    assert (table.runs, table.draws) == (10, 500)
    levels = sorted({s.log_beta for s in table.spreads[1:]})
    assert len(levels) == BETAS
    for i in range(10):
        curve = qr.tradeoff(pool.take(np.arange(500 * i, 500 * (i + 1))), log_betas=levels)
        for spread in table.spreads[1:]:
            at = levels.index(spread.log_beta)
            name = spread.quantity
            estimate = {
                "AR": curve.acceptance_rate,
                "TVD": curve.tvd,
                "KL": curve.kl,
                **{Moment(feature): part for feature, part in curve.moments.items()},
            }[name][at]
            assert spread.cell.values[i] == pytest.approx(estimate.value, abs=1e-14)
            assert spread.cell.ses[i] == pytest.approx(estimate.se, abs=1e-14)


def test_draws_lie_above_every_beta():
    for pool in (poissons(20_000), letters(20_000)):
        for level in choose_betas(pool, 10):
            assert (pool.log_ratio > level).sum() >= ABOVE * 10
    smooth = np.random.default_rng(0).normal(size=20_000)
    levels = choose_betas(qr.Draws.from_arrays(smooth, np.zeros(20_000)), 10)
    assert (smooth > levels[-1]).sum() == ABOVE * 10


def test_few_draws_with_large_ratios_have_betas_too():
    """One draw in 100 has a ratio of 9, the others of about 1: 30 of 3,000 are fewer than 200."""
    target = qr.Table({"a": 0.09, "b": 0.91})
    proposal = qr.Table({"a": 0.01, "b": 0.99})
    pool = qr.draw(target, proposal, 3000, seed=0)
    levels = choose_betas(pool, 10)
    assert len(np.unique(levels)) == BETAS
    above = (pool.log_ratio > levels[-1]).sum()
    assert 10 < above < 60
    table = variance(pool)
    assert table.above == above / 10
    assert any(note.startswith("! That is fewer than 20") for note in table.notes())
    assert not any(note.startswith("!") for note in variance(poissons(20_000)).notes())


def test_where_all_ratios_are_equal_only_the_rate_moves():
    pool = qr.draw(qr.Table({"a": 1}), qr.Table({"a": 1, "b": 3}), 4000, seed=0)
    table = variance(pool)
    rates = [spread.cell.runs.mean for spread in table.spreads if spread.quantity == "AR"]
    share = float((pool.log_p > -np.inf).mean())
    np.testing.assert_allclose(rates, [share / 2**k for k in range(BETAS)])


def test_scaling_by_e_to_the_800_changes_no_spread():
    plain = poissons(10_000)
    far = qr.Draws(log_p=plain.log_p - 800, log_q=plain.log_q, log_u=plain.log_u)
    for a, b in zip(variance(plain).spreads[1:], variance(far).spreads[1:], strict=True):
        assert b.log_beta == pytest.approx(a.log_beta - 800)
        assert b.cell.runs.mean == pytest.approx(a.cell.runs.mean, rel=1e-6)
    assert "e^-8" in variance(far).markdown("far")


def test_too_few_draws_are_refused():
    with pytest.raises(qr.errors.InputError, match="cannot be parted"):
        variance(poissons(9))


def test_as_csv_and_markdown():
    table = variance(letters(20_000))
    rows = list(csv.DictReader(io.StringIO(as_csv([s.to_dict() for s in table.spreads]))))
    assert len(rows) == 1 + BETAS * (3 + 3)
    assert rows[0]["quantity"] == "log Z"
    assert rows[0]["log_beta"] == ""
    assert float(rows[1]["mean"]) == table.spreads[1].cell.runs.mean
    assert float(rows[1]["claimed_se"]) == table.spreads[1].cell.claimed
    shown = table.markdown("letters")
    assert max(map(len, shown.splitlines())) <= 100
    assert "10 runs of 2,000 draws each" in shown.replace("\n  ", " ")
