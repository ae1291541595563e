"""Autocorrelation times against exact values, direct sums and arviz-stats."""

import numpy as np
import pytest
from arviz_stats.base import array_stats
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal

import quasir as qr
from quasir.metrics import autocorrelation_time, ess
from quasir.metrics.chains import autocorrelation, integrate

RHOS = (-0.5, 0.0, 0.5, 0.9)


def ar1(rho, shape, seed=0):
    """Return chains x_t = rho x_{t-1} + e_t that begin in equilibrium."""
    noise = np.random.default_rng(seed).normal(size=shape)
    noise[..., 0] /= np.sqrt(1 - rho**2)
    return signal.lfilter([1.0], [1.0, -rho], noise, axis=-1)


@pytest.mark.parametrize("rho", [-0.9, *RHOS, 0.99])
def test_exact_autocorrelations_give_the_exact_time(rho):
    correlation = np.power(rho, np.arange(6000.0))
    correlation[0] = 1
    assert integrate(correlation) == pytest.approx((1 + rho) / (1 - rho), rel=1e-10)


def test_the_sum_is_cut_where_geyer_cuts_it():
    # Pairs 1.5, 0.7, 0.9 (no more than the one before), -0.1 (cut), 5 (not seen).
    correlation = np.array([1.0, 0.5, 0.4, 0.3, 0.5, 0.4, 0.1, -0.2, 2.5, 2.5])
    assert integrate(correlation) == pytest.approx(2 * (1.5 + 0.7 + 0.7) - 1, abs=1e-12)


@settings(max_examples=40)
@given(st.integers(1, 3), st.integers(4, 40), st.integers(0, 10**6), st.floats(-1e3, 1e3))
def test_fft_against_direct_sums(chains, draws, seed, shift):
    x = np.random.default_rng(seed).normal(size=(chains, draws)) + shift
    centred = x - x.mean(axis=1, keepdims=True)
    covariance = np.array(
        [(centred[:, t:] * centred[:, : draws - t]).sum(axis=1).mean() for t in range(draws)]
    )
    between = x.mean(axis=1).var(ddof=1) if chains > 1 else 0.0
    want = (covariance / draws + between) / (covariance[0] / draws + between)
    np.testing.assert_allclose(autocorrelation(x), want, atol=1e-11)


@pytest.mark.parametrize("rho", RHOS)
def test_the_error_of_the_mean_is_that_of_ess_draws(rho):
    chains = ar1(rho, (2000, 500), seed=1)
    exact = np.std(chains.mean(axis=1))
    claimed = np.sqrt(np.mean([chain.var() / ess(chain) for chain in chains[:200]]))
    assert claimed == pytest.approx(exact, rel=0.1)


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("shape", [(1, 5000), (4, 5000)])
def test_ess_is_that_of_arviz(rho, shape):
    chain = ar1(rho, shape, seed=2)
    theirs = float(array_stats.ess(chain, chain_axis=0, draw_axis=1, method="identity"))
    # Theirs adds one lag more where that is positive, and takes 1/(draws - 1) off each: the first
    # is 2 % of a time as short as 0.3, the second 0.3 % of one as long as 24.
    assert ess(chain) == pytest.approx(theirs, rel=0.03)


def test_chains_that_disagree_are_worth_little():
    chains = ar1(0.5, (4, 2000), seed=3)
    apart = chains + 5 * np.arange(4)[:, None]
    theirs = float(array_stats.ess(apart, method="identity"))
    assert ess(apart) == pytest.approx(theirs, rel=0.1)
    assert ess(apart) < 10
    assert ess(chains) > 1000
    assert sum(ess(chain) for chain in apart) > 1000  # what looking at each alone would say


def test_a_single_chain_needs_no_second_dimension():
    chain = ar1(0.7, 1000)
    assert ess(chain) == ess(chain[None])
    assert ess(list(chain > 0)) == ess((chain > 0).astype(float))


def test_an_alternating_chain_is_capped():
    chain = np.tile([1.0, -1.0], 500)
    assert autocorrelation_time(chain) == pytest.approx(1 / 3)
    assert ess(chain) == pytest.approx(3000)


@pytest.mark.parametrize("value", [0.0, 0.1, -3.0])
def test_a_chain_that_never_moves_is_unknown(value):
    for chain in (np.full(100, value), np.full((3, 50), value)):
        with pytest.warns(qr.errors.QuasirWarning, match=f"values of the chain are {value:g}"):
            assert np.isnan(autocorrelation_time(chain))
        with pytest.warns(qr.errors.QuasirWarning, match="unknown"):
            assert np.isnan(ess(chain))


def test_chains_stuck_in_different_places_are_worth_less_than_one_draw_each():
    assert ess(np.repeat([[1.0], [2.0], [3.0]], 100, axis=1)) <= 3


@pytest.mark.parametrize(
    ("chain", "message"),
    [
        ([], "chain of 0 draws"),
        ([1.0, 2.0, 3.0], "chain of 3 draws"),
        (np.zeros((2, 3, 4)), "shape"),
        ([1.0, np.nan, 2.0, 3.0], "1 of the chain's 4 values"),
        (["a", "b", "c", "d"], "not an array of numbers"),
        ([[1.0, 2.0, 3.0, 4.0], [1.0]], "equal length"),
    ],
)
def test_chains_that_are_refused(chain, message):
    for call in (autocorrelation_time, ess):
        with pytest.raises(qr.errors.InputError, match=message):
            call(chain)
