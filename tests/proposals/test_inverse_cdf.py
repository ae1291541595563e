import numpy as np
import pytest
from scipy import stats

from quasir.proposals.table import InverseCdf


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
