"""Which draws are whose."""

import numpy as np
import pytest

import quasir as qr
from quasir.compare.methods import METHODS, Cost, waits
from quasir.compare.plan import FEWEST, plan, shares_of
from tests.compare.pools import letters, places, poissons

ALL = list(METHODS)


@pytest.mark.parametrize("size", [200, 3000, 30_000, 300_000])
def test_no_draw_is_used_twice(size):
    pool = letters(size)
    shares = plan(pool, [Cost(10, 100), Cost(50, 100), Cost(2, 100)], ALL, n=200, runs=7)
    used = np.concatenate([at for share in shares for at in places(share)])
    assert len(np.unique(used)) == len(used)
    assert used.max() < size


def test_a_large_pool_gives_all_that_is_asked():
    pool = letters(40_000)
    shares = plan(pool, [Cost(10, 50), Cost(20, 50)], ALL, n=100, runs=5)
    assert [(share.n, share.runs) for share in shares] == [(100, 5), (100, 5)]
    assert sum(share.wanted for share in shares) <= 40_000


def test_n_is_lowered_first_and_then_runs():
    pool = poissons(6000)
    seen = []
    for size in (6000, 3000, 1200, 600, 300, 130, 30):
        (share,) = plan(pool.take(np.arange(size)), [Cost(10, 20)], ["qrs", "imh"], n=50, runs=8)
        seen.append((share.n, share.runs))
    # A chain has a start, 20 states before the first that counts, and 10 for each sample.
    assert seen == [(50, 8), (35, 8), (12, 8), (12, 4), (12, 2), (10, 1), (0, 1)]
    assert all(n >= FEWEST or runs == 1 for n, runs in seen)


def test_a_single_run_may_be_smaller_still():
    (share,) = plan(poissons(60), [Cost(10, 20)], ["imh"], n=50, runs=8)
    assert (share.n, share.runs, share.length) == (3, 1, 60)


@pytest.mark.parametrize("name", ALL)
def test_as_many_as_promised_and_not_one_more(name):
    method, cost = METHODS[name], Cost(7, 30)
    for seed in range(5):
        stretch = letters(500, seed)
        most = method.most(stretch, cost)
        assert len(method.keep(stretch, most, cost, 1).places) == most
        assert method.keep(stretch, most, cost, 1).proposals <= 500
        if name == "sir":
            assert most * cost.steps <= 500 < (most + 1) * cost.steps
        else:
            with pytest.raises(qr.BudgetExceeded):
                method.keep(stretch, most + 1, cost, 1)


@pytest.mark.parametrize("name", ALL)
def test_what_is_needed_is_enough(name):
    method, cost = METHODS[name], Cost(3, 40)
    possible = float((letters(100_000).log_p > -np.inf).mean())
    assert 0.8 < possible < 0.95
    for n in (1, 20, 300):
        need = method.need(n, cost, possible)
        assert all(method.most(letters(need, seed), cost) >= n for seed in range(20))
    assert method.need(300, cost, 1.0) <= 300 * 3 + 40 + 1


def test_waiting_for_what_is_rare():
    rng = np.random.default_rng(0)
    for n, share in ((1, 0.01), (50, 0.05), (1000, 0.3)):
        assert (rng.binomial(waits(n, share), share, size=20_000) >= n).all()


def test_a_pool_is_divided_by_what_is_wanted():
    assert shares_of(1000, [100, 200]) == [100, 200]
    assert shares_of(1000, [5000, 100]) == [900, 100]
    assert shares_of(1000, [5000, 900, 4000]) == [334, 333, 333]
    assert shares_of(0, [5, 6]) == [0, 0]
