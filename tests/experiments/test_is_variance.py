"""The spread over runs compared with the errors that one run claims."""

import numpy as np
import pytest
from experiments.is_variance import RATES, choose_betas, cut, variance
from scipy import stats

import quasir as qr
from tests.compare.pools import letters, poissons
from tests.statistical.goodness import FALSE_ALARM

RUNS = 60


def agrees(spread, factor=1.0):
    """Tell whether an sd over normal runs is what the claimed error says, by chi-square."""
    statistic = (RUNS - 1) * (spread.sd / (factor * spread.claimed)) ** 2
    p = stats.chi2(RUNS - 1).cdf(statistic)
    return FALSE_ALARM / 2 < p < 1 - FALSE_ALARM / 2


@pytest.mark.parametrize("pool", [poissons(240_000, seed=1), letters(240_000, seed=1)], ids=len)
def test_the_claimed_errors_are_those_of_repeated_runs(pool):
    levels = np.quantile(pool.log_ratio[pool.log_ratio > -np.inf], [0.2, 0.5, 0.8])
    moving = [one for one in variance(cut(pool, RUNS), levels) if one.claimed > 0]
    assert len(moving) >= 6
    for spread in moving:
        assert agrees(spread), spread
        assert not agrees(spread, 2.5), spread
        assert not agrees(spread, 0.4), spread


def test_the_means_are_the_exact_values():
    exact = {
        "acceptance_rate": (0.876849, 0.498182),
        "tvd": (0.07492242, 0.00353111),
        "kl": (0.01988471, 0.00048655),
    }
    for spread in variance(cut(poissons(200_000), 10), log_betas=np.log([1.0, 2.0])):
        value = exact[spread.quantity][spread.index]
        assert spread.mean == pytest.approx(value, abs=5 * spread.claimed / np.sqrt(10))


def test_the_betas_have_the_papers_acceptance_rates():
    pool = poissons(20_000)
    levels = choose_betas(cut(pool, 10))
    rates = qr.tradeoff(pool, log_betas=levels).acceptance_rate.value
    np.testing.assert_allclose(rates, [0.99, *RATES[1:]], rtol=1e-3)
