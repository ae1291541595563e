"""The trade-off at all betas equals the formulas one beta at a time, to 1e-9 relative."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quasir as qr
from tests.reference import L, formulas

NAMES = ("acceptance_rate", "log_z", "log_z_beta", "tvd_bound", "tvd", "kl", "kl_base")


def check(log_p, log_q, log_betas, log_base, features, rtol=1e-9):
    draws = qr.Draws.from_arrays(log_p, log_q, log_base=log_base, features=features)
    curve = qr.tradeoff(draws, log_betas=log_betas)
    scale = np.asarray(draws.log_ratio).max()
    for i, log_beta in enumerate(log_betas):
        want = formulas(log_p, log_q, log_beta, log_base, features)
        for name, (value, se) in want.items():
            part = curve.moments[name] if name in features else getattr(curve, name)
            # A log or a mean near 0 is compared on the scale of what it is made of.
            size = {"log_z": abs(scale), "log_z_beta": abs(scale) + abs(log_beta), "kl_base": 10}
            atol = rtol * float(size.get(name, 0) + (1 if name in features else 0))
            # A log of 300 is a number to 6e-14 of itself, and TVD and KL are differences of
            # numbers near 1 and near log Z_beta/Z.
            rounding = (
                1e-15
                * (10 + abs(scale) + abs(log_beta))
                * (name in ("tvd", "kl", "truncated_mass"))
            )
            close = {"rtol": rtol, "atol": atol + rounding + 1e-290}
            value = max(value, L(0)) if name.startswith("kl") else value  # no KL is below 0
            np.testing.assert_allclose(part.value[i], float(value), **close, err_msg=name)
            if not np.isnan(part.se[i]):
                # A variance is a difference of sums: its root is good to 1e-7 of their terms,
                # of which the largest are 1 (relative to Z) and beta/Z_beta.
                term = float(np.exp(L(log_beta) - want["log_z_beta"][0])) / np.sqrt(len(log_p))
                if name in ("acceptance_rate", "tvd_bound"):
                    term = float(value)
                elif name in features:
                    term *= max(1.0, float(np.std(features[name])))
                slack = {"rtol": 1e-8, "atol": 1e-7 * term + atol}
                np.testing.assert_allclose(part.se[i], float(se), **slack, err_msg=f"{name} se")
            assert part.low[i] <= part.value[i] <= part.high[i], name


@st.composite
def columns(draw):
    """Ratios with ties, impossible items, and a range from narrow to e^-300..e^300."""
    n = draw(st.integers(2, 60))
    span = draw(st.sampled_from([0.5, 3.0, 40.0, 300.0]))
    grid = draw(st.sampled_from([5, 1000]))
    ratio = st.integers(-grid, grid).map(lambda i: i / grid * span)
    log_w = np.array(draw(st.lists(ratio, min_size=n, max_size=n)))
    dead = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    dead[draw(st.integers(0, n - 1))] = False
    log_q = np.array(draw(st.lists(st.floats(-20, -0.1), min_size=n, max_size=n)))
    log_p = np.where(dead & draw(st.booleans()), -np.inf, log_w + log_q)
    return log_p, log_q, span


@settings(max_examples=150, deadline=None)
@given(columns(), st.integers(0, 2**32))
def test_all_betas_at_once_equal_one_at_a_time(case, seed):
    log_p, log_q, span = case
    rng = np.random.default_rng(seed)
    n = len(log_p)
    features = {"flag": rng.random(n) < 0.3, "size": rng.normal(50, 10, n)}
    log_base = np.where(log_p > -np.inf, log_q + rng.normal(size=n), np.nan)
    ratios = (log_p - log_q)[log_p > -np.inf]
    log_betas = np.concatenate([rng.uniform(-1.1 * span, 1.1 * span, 8), ratios[:4]])
    check(log_p, log_q, log_betas, log_base, features)


@pytest.mark.parametrize("n", [2047, 2048, 2049, 5000, 140_000])
def test_sizes_around_the_chunks(n):
    rng = np.random.default_rng(n)
    log_q = rng.normal(size=n)
    log_p = np.where(rng.random(n) < 0.3, -np.inf, log_q + rng.normal(0, 2, n).round(2))
    features = {"flag": rng.random(n) < 0.01, "size": rng.normal(1000, 1, n)}
    log_base = np.where(log_p > -np.inf, log_q - rng.random(n), np.nan)
    check(log_p, log_q, np.linspace(-6, 9, 17), log_base, features)


def test_a_range_that_no_square_survives():
    rng = np.random.default_rng(0)
    log_w = rng.uniform(-300, 300, 10_000)
    log_q = np.full(10_000, -5.0)
    check(log_w + log_q, log_q, np.linspace(-310, 299, 40), None, {})


def test_a_mutant_formula_fails():
    """The check above can fail: a TVD without its 1/2, or a KL without log Z_beta/Z."""
    rng = np.random.default_rng(2)
    log_q = rng.normal(size=500)
    log_p = log_q + rng.normal(size=500)
    curve = qr.tradeoff(qr.Draws.from_arrays(log_p, log_q), betas=[1.0])
    want = formulas(log_p, log_q, 0.0)
    gap = want["log_z_beta"][0] - want["log_z"][0]
    assert abs(curve.tvd.value[0] - 2 * want["tvd"][0]) > 1e-3
    assert abs(curve.kl.value[0] - (want["kl"][0] - gap)) > 1e-3
