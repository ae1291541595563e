from dataclasses import replace

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import integrate, stats

from quasir.estimation.intervals import fit_tail
from quasir.estimation.ratios import SortedRatios


@pytest.mark.parametrize("shape", [-0.3, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("n", [500, 20_000])
def test_pareto_k_is_that_of_psis(shape, n):
    rng = np.random.default_rng(int(100 * shape) + n + 100)
    log_w = np.log(1 + stats.genpareto(shape).rvs(n, random_state=rng))
    tail = fit_tail(SortedRatios(log_w))
    _, k = array_stats.psislw(-log_w)  # it negates what it is given
    assert tail.k == pytest.approx(float(k), abs=1e-6)
    assert tail.k == pytest.approx(shape, abs=6 * (1 + abs(shape)) / np.sqrt(tail.count))


@pytest.mark.parametrize("shape", [-0.3, 1e-12, 0.3, 0.8])
def test_what_lies_above_beta_by_the_fit(shape):
    rng = np.random.default_rng(0)
    log_w = np.log(1 + stats.genpareto(0.2).rvs(5000, random_state=rng))
    fitted = fit_tail(SortedRatios(log_w))
    tail = replace(fitted, k=shape)
    law = stats.genpareto(shape, loc=tail.threshold, scale=tail.scale)
    beta = tail.threshold + 1.5 * tail.scale
    top = min(law.support()[1], np.inf)
    share = tail.count / tail.n

    def mean(f):
        return share * integrate.quad(lambda w: f(w) * law.pdf(w), beta, top, limit=500)[0]

    got = tail.above(tail.log_max + np.log(beta))
    want = (
        share * law.sf(beta),
        mean(lambda w: w),
        mean(lambda w: w - beta),
        mean(lambda w: w * np.log(w / beta)),
    )
    np.testing.assert_allclose(got, want, rtol=2e-3)


def test_the_quantile_is_the_inverse_of_the_mass():
    rng = np.random.default_rng(1)
    tail = fit_tail(SortedRatios(2 * rng.normal(size=3000)))
    log_w = tail.log_ratio_at(0.01 / 3000)
    assert tail.above(log_w)[0] == pytest.approx(0.01 / 3000, rel=1e-6)


def test_ties_and_too_few():
    assert fit_tail(SortedRatios(np.zeros(100))).k == -np.inf
    assert np.isnan(fit_tail(SortedRatios(np.array([0.0, 1.0]))).k)
    assert np.isnan(fit_tail(SortedRatios(np.full(50, -np.inf))).k)
    mostly = np.full(10_000, -np.inf)
    mostly[:40] = np.random.default_rng(0).normal(size=40)
    assert np.isfinite(fit_tail(SortedRatios(mostly)).k)
    wide = np.random.default_rng(0).uniform(-300, 300, 1000)
    assert fit_tail(SortedRatios(wide)).k > 1
