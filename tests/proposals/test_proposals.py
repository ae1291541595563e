import math

import numpy as np
import pytest
from scipy import stats

import quasir as qr
from quasir.core.items import Coded
from quasir.proposals.table import InverseCdf


def test_table_targets_and_proposals_with_different_supports():
    target, proposal = qr.Table({"b": 2.0, "c": 0.0}), qr.Table({"a": 0.5, "b": 0.5})
    draws = qr.draw(target, proposal, 2000, seed=0)
    for i in range(20):
        want = math.log(2.0) if draws.items[i] == "b" else -math.inf
        assert draws.log_p[i] == want
    assert draws.log_q == pytest.approx(math.log(0.5))
    assert target.log_prob(["b", "z"]) == pytest.approx([0.0, -math.inf])
    assert proposal.log_score(Coded(("b", "q"), np.array([1, 0]))).tolist() == [
        -math.inf,
        math.log(0.5),
    ]


def test_table_over_integers_gives_arrays():
    table = qr.Table({3: 1, -7: 2, 100: 0})
    items, log_q = table.sample(1000, np.random.default_rng(0))
    assert items.dtype.kind == "i"
    assert set(items.tolist()) == {3, -7}
    np.testing.assert_allclose(log_q, table.log_prob(items))
    assert table.log_prob(np.array([5, 100])).tolist() == [-math.inf, -math.inf]


def test_table_never_draws_what_has_no_weight():
    table = qr.Table({"a": 0.0, "b": 1e-300, "c": 0.0})
    assert set(table.sample(5000, np.random.default_rng(0)).items) == {"b"}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({}, "empty"),
        ({"a": 0}, "all its weights"),
        ({"a": -1}, "the weight of 'a' is -1"),
        ({"a": math.nan}, "the weight of 'a' is nan"),
        ({"a": "x"}, "the weight of 'a'"),
    ],
)
def test_table_refuses(weights, message):
    with pytest.raises(qr.errors.InputError, match=message):
        qr.Table(weights)


@pytest.mark.parametrize(
    "distribution",
    [
        stats.poisson(10),
        stats.binom(20, 0.3),
        stats.geom(0.1, loc=-5),
        stats.randint(-4, 9),
        stats.nbinom(3, 0.01),
        stats.zipf(1.5),
        stats.randint(0, 10**9),
        stats.rv_discrete(values=([0.5, 1.5], [0.25, 0.75]))(),
    ],
)
def test_discrete_scipy_distributions(distribution):
    ours = qr.from_scipy(distribution)
    items, log_q = ours.sample(4000, np.random.default_rng(1))
    assert len(items) == 4000
    np.testing.assert_allclose(log_q, distribution.logpmf(items), rtol=1e-9)
    np.testing.assert_array_equal(ours.log_score(items), ours.log_prob(items))
    median = float(distribution.median())
    below = float(distribution.cdf(median))
    assert np.mean(items <= median) == pytest.approx(below, abs=0.05)


def test_values_outside_the_table_are_asked_of_scipy():
    ours = qr.from_scipy(stats.poisson(10))
    items = np.array([-1, 0, 3, 500, 10_000])
    np.testing.assert_allclose(ours.log_prob(items), stats.poisson(10).logpmf(items), rtol=1e-12)
    np.testing.assert_allclose(ours.log_prob([2.0, 2.5]), stats.poisson(10).logpmf([2.0, 2.5]))


def test_a_density_in_the_plane_has_the_tvd_kl_and_guarantee_of_a_grid():
    wide = stats.multivariate_normal([0, 2], [[4, 0], [0, 4]])
    bend = qr.Feature("bend", lambda x: -2 * (x[1] - x[0] ** 2 / 3) ** 2, high=0.0)
    base = qr.from_scipy(wide)
    cert = qr.tradeoff(qr.draw(base * qr.reward(bend), base, 20_000, seed=0)).at(beta=0.7)
    grid = np.stack(np.meshgrid(*[np.linspace(-10, 14, 800)] * 2), axis=-1).reshape(-1, 2)
    q = wide.pdf(grid)
    p = q * np.exp(-2 * (grid[:, 1] - grid[:, 0] ** 2 / 3) ** 2)
    p_beta = np.minimum(p, 0.7 * q)
    p, p_beta = p / p.sum(), p_beta / p_beta.sum()
    tvd = np.abs(p - p_beta).sum() / 2
    kl = (p_beta * np.log(np.where(p_beta > 0, p_beta, 1) / np.where(p > 0, p, 1))).sum()
    assert abs(cert.tvd.value - tvd) < 5 * cert.tvd.se < 0.02
    assert abs(cert.kl.value - kl) < 5 * cert.kl.se < 0.01
    assert tvd < cert.guarantee.tvd < tvd + 0.05


@pytest.mark.parametrize("kind", ["poisson", "uneven", "one", "skewed", "many", "zeros"])
def test_inverting_by_a_guide_table_is_the_binary_search(kind):
    rng = np.random.default_rng(0)
    law = {
        "poisson": lambda: stats.poisson(10).pmf(np.arange(60)),
        "uneven": lambda: rng.dirichlet(np.full(5000, 0.1)),
        "one": lambda: np.array([1.0]),
        "skewed": lambda: np.r_[1 - 1e-9, np.full(1000, 1e-12)],
        "many": lambda: rng.dirichlet(np.ones(5_000_000)),
        "zeros": lambda: np.array([0.0, 0.5, 0.0, 0.0, 0.5, 0.0]),
    }[kind]()
    cumulative = np.cumsum(law) / law.sum()
    cumulative[np.flatnonzero(law)[-1] :] = 1.0
    inside = cumulative[cumulative < 1][:1000]
    ends = [inside, np.nextafter(inside, 0), np.nextafter(inside, 1), [0.0, np.nextafter(1, 0)]]
    u = np.concatenate([rng.random(20_000), *ends])
    u = u[u < 1]
    expected = np.searchsorted(cumulative, u, side="right")
    np.testing.assert_array_equal(InverseCdf(cumulative)(u), expected)


def test_a_sum_that_rounds_below_1_does_not_lead_past_the_last_place():
    found = InverseCdf(np.array([0.5, 1 - 1e-12]))(np.array([np.nextafter(1, 0)]))
    np.testing.assert_array_equal(found, [1])
