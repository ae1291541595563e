"""Ratios that span up to a billion nats: bounds stay bounds, stay tight, and nothing warns."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import quasir as qr
from quasir.certificates.curve import curve_of
from quasir.certificates.evaluator import SummarisedDraws
from quasir.draws.ceiling import RatioBounds
from quasir.errors import QuasirError
from quasir.estimation.betting import (
    acceptance_rate_at_least,
    acceptance_rate_at_most,
    least_shown,
    log_wealth,
    upper_bounds,
)
from quasir.estimation.binned_draws import BinnedDraws
from quasir.estimation.ratios import SortedRatios
from quasir.estimation.summary import Summary

ALPHA = 0.05


def heavy(seed, n=4000):
    """Return log ratios of at most 0 whose span is anything up to 1e9 nats, ascending."""
    rng = np.random.default_rng(seed)
    decades = rng.uniform(-1, 9)
    log_w = -(10 ** rng.uniform(-2, decades, n))
    body = rng.random(n) < rng.choice([0.05, 0.5, 0.95])
    log_w[body] = -rng.exponential(rng.choice([0.1, 1.0, 20.0]), body.sum())
    return np.sort(log_w), rng


def unbinned(log_w, level):
    """Return the bounds on lost and on the acceptance rate from the draws themselves."""
    w = np.exp(log_w - level)[None]
    ones, top = np.ones_like(w), math.exp(-level)

    def truncated_mass(tau, rows):
        x = np.maximum(w - 1, 0) - tau[:, None] * w
        return log_wealth(x / ((1 - tau) * top - 1)[:, None], ones)

    y = np.minimum(w, 1.0)
    mean = np.array([y.mean()])

    def at_most(rate, rows):
        return log_wealth((y - rate[:, None]) / (1 - rate[:, None]), ones)

    def at_least(rate, rows):
        return log_wealth(1 - y / np.maximum(rate[:, None], 1e-300), ones)

    return (
        least_shown(truncated_mass, np.zeros(1), np.array([1 - math.exp(level)]), ALPHA)[0],
        least_shown(at_least, mean, np.zeros(1), ALPHA)[0],
        least_shown(at_most, mean, np.ones(1), ALPHA)[0],
    )


@pytest.mark.parametrize("seed", range(30))
def test_bounds_of_binned_draws_are_bounds_and_close_to_those_of_the_draws(seed):
    log_w, rng = heavy(seed)
    level = np.array([-rng.choice([0.05, 1.0, 10.0])])
    spread = BinnedDraws.of_sorted(len(log_w), log_w)
    lost, low, high = unbinned(log_w, float(level[0]))
    # The search stops within 2e-4 of the way, on either side of the true bound.
    found = upper_bounds("truncated_mass", spread, level, alpha=ALPHA, log_ceiling=0.0)[0]
    assert lost - 5e-4 <= found <= lost + 0.01
    assert low - 0.01 <= acceptance_rate_at_least(spread, level, alpha=ALPHA)[0] <= low + 5e-4
    assert high - 5e-4 <= acceptance_rate_at_most(spread, level, alpha=ALPHA)[0] <= high + 0.01


@pytest.mark.parametrize("seed", range(20))
def test_every_draw_is_within_its_bin_and_bins_do_not_overlap(seed):
    log_w, _ = heavy(seed)
    spread = BinnedDraws.of_sorted(len(log_w), log_w)
    assert spread.count[0].sum() == len(log_w)
    assert (spread.log_low <= spread.log_high).all()
    assert (spread.log_high[:-1] <= spread.log_low[1:]).all()
    ends = np.cumsum(spread.count[0]).astype(int)
    starts = np.concatenate([[0], ends[:-1]])
    assert (log_w[starts] >= spread.log_low).all()
    assert (log_w[ends - 1] <= spread.log_high).all()
    assert (spread.total[0] > 0).all()


@pytest.mark.parametrize("seed", range(20))
def test_binned_sums_are_those_of_the_draws_at_every_level(seed):
    """Also after shards of different spans are merged."""
    log_w, rng = heavy(seed, 12_000)
    shards = np.split(rng.permutation(log_w), [2_000, 5_000])
    shards[0] = np.maximum(shards[0], -30.0)
    all_ = np.concatenate(shards)
    made = Summary.merged([Summary.of(part, np.zeros(len(part))) for part in shards])
    binned, exact = SummarisedDraws(made).ratios, SortedRatios(all_, [], [])
    assert binned.width <= 2.0**-3
    levels = np.array([binned.level(i) for i in rng.integers(0, binned.n_levels, 20)])
    one, two = binned.at(levels), exact.at(levels)
    assert (one.n_high == two.n_high).all()
    scale = np.exp(np.minimum(one.log_unit - two.log_unit, 0))
    assert one.low[:, 0] * scale == pytest.approx(
        two.low[:, 0] * np.exp(np.minimum(two.log_unit - one.log_unit, 0)), rel=1e-9, abs=1e-12
    )
    assert one.high[:, 0] == pytest.approx(two.high[:, 0], rel=1e-9)
    assert one.total == pytest.approx(two.total, rel=1e-9)


def test_normal_from_cauchy_has_a_guarantee():
    """The ratios span 1.5e9 nats, and the guarantee was 1, the acceptance rate in [0, 1]."""
    p, q = qr.from_scipy(stats.norm()), qr.from_scipy(stats.cauchy())
    draws = qr.draw(p, q, 100_000, seed=0)
    parts = [slice(i, None, 4) for i in range(4)]
    summary = Summary.merged([Summary.of(draws.log_p[i], draws.log_q[i]) for i in parts])
    for curve in (
        qr.tradeoff(draws),
        curve_of(SummarisedDraws(summary, known=RatioBounds(log_z=0.0))),
    ):
        guarantee = curve.at(beta=1.0).guarantee
        assert 0.0435 < guarantee.tvd < 0.15
        assert 0.2512 < guarantee.truncated_mass < 0.26
        assert 0.742 < guarantee.acceptance_rate[0] < guarantee.acceptance_rate[1] < 0.753


SCORES = st.one_of(
    st.just(-math.inf),
    st.floats(-5, 5),
    st.floats(-1e9, 1e9),
    st.sampled_from([-1e100, -1e9, -745.2, -700.0, 0.0, 700.0, 1e9, 1e100]),
)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_no_legal_scores_warn(data):
    n = data.draw(st.integers(1, 12))

    def column(values):
        return np.array(data.draw(st.lists(values, min_size=n, max_size=n)))

    log_p = column(SCORES)
    finite = SCORES.filter(lambda x: -1e99 < x < 1e99)
    columns = {"log_q": column(finite) if data.draw(st.booleans()) else np.zeros(n)}
    if data.draw(st.booleans()):
        columns["log_base"] = column(SCORES.filter(lambda x: x < 1e99))
    if data.draw(st.booleans()):
        columns["features"] = {"f": column(st.floats(-1e140, 1e140))}
    if data.draw(st.booleans()):
        columns["log_ceiling"] = float(max(log_p.max() - columns["log_q"].min(), 0.0))
    try:
        draws = qr.Draws.from_arrays(log_p=log_p, **columns)
    except QuasirError:
        return
    curves = [qr.tradeoff(draws)]
    # A beta is at most 1e9 in log; bins are made for ratios of that size.
    if (np.abs(draws.log_ratio[draws.log_ratio > -np.inf]) < 1e10).all():
        parts = [summary_of(draws, part) for part in (slice(0, 1), slice(1, n)) if part.start < n]
        curves.append(curve_of(SummarisedDraws(Summary.merged(parts), known=draws.known)))
    for curve in curves:
        look_at(curve)


def summary_of(draws, part):
    features = {name: column[part] for name, column in draws.features.items()}
    base = None if draws.log_base is None else draws.log_base[part]
    return Summary.of(draws.log_p[part], draws.log_q[part], base, features)


def look_at(curve):
    str(curve), curve.columns()
    str(curve.projection), str(curve.proposal)
    top = min(max(curve.tail.log_max, -1e8), 1e8)
    constraints = [{"log_beta": top}, {"log_beta": top - 3}, {"tvd": 0.1}, {"acceptance_rate": 0.5}]
    for constraint in [
        *constraints,
        {"tvd": 0.1, "confidence": 0.9},
        {"kl": 0.1, "confidence": 0.9},
    ]:
        try:
            certificate = curve.at(**constraint)
        except QuasirError:
            continue
        str(certificate), certificate.to_dict()
