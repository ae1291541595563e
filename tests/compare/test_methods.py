"""Which draws are whose."""

import numpy as np
import pytest

import quasir as qr
from quasir.compare.comparison import METHODS, draws_to_hold, stretches_for
from quasir.compare.sampler_table import Cost
from tests.compare.pools import letters, numbered, places

ALL = list(METHODS.values())


@pytest.mark.parametrize("size", [200, 3000, 30_000, 300_000])
def test_no_draw_is_used_twice(size):
    for steps in (10, 50, 2):
        share = stretches_for(size, 0.9, Cost(steps, 100), ALL, n=200, runs=7)
        used = np.concatenate(places(share))
        assert len(np.unique(used)) == len(used) == share.runs * share.length
        assert used.max() < size


def test_n_is_lowered_to_what_the_pool_gives():
    """A chain has a start, 20 states before the first that counts, and 10 for each sample."""
    methods = [METHODS["qrs"], METHODS["imh"]]
    seen = [
        stretches_for(size, 1.0, Cost(10, 20), methods, n=50, runs=8).n
        for size in (6000, 4168, 4167, 2000, 300, 248, 247)
    ]
    assert seen == [50, 50, 49, 22, 1, 1, 0]
    for steps, length in ((10, 1000), (20, 2000), (25, 2000)):
        share = stretches_for(20_000, 1.0, Cost(steps, 0), [METHODS["qrs"]], n=100, runs=10)
        assert (share.n, share.length) == (min(100, 2000 // steps), length)


@pytest.mark.parametrize("name", METHODS)
def test_what_is_needed_is_enough_and_not_far_too_much(name):
    method, cost = METHODS[name], Cost(3, 40)
    possible = float((letters(100_000).log_p > -np.inf).mean())
    assert 0.8 < possible < 0.95
    for n in (1, 20, 300):
        need = method.need(n, cost, possible)
        for seed in range(20):
            kept = method.keep(numbered(letters(need, seed)), n, cost, 1)
            assert len(kept.indices) == n
            assert kept.proposals <= need
    assert method.need(300, cost, 1.0) <= 300 * 3 + 40 + 1


def test_a_chain_that_is_reset_pays_for_its_wait_with_steps():
    """Of 24 draws one is possible; the others come out as dear as a sample is to be."""
    pool = numbered(qr.draw(qr.Table({"a": 1}), qr.Table({"a": 1, "b": 23}), 200_000, seed=3))
    possible = float((pool.log_p > -np.inf).mean())
    for steps in (100, 40, 5):
        cost = Cost(steps, wait=round(1 / possible) - 1)
        for name in ("imh-reset", "qrs"):
            kept = METHODS[name].keep(pool, 1000, cost, 0)
            assert kept.proposals / 1000 == pytest.approx(max(steps, 24), rel=0.1)


def test_waiting_for_what_is_rare():
    rng = np.random.default_rng(0)
    for n, share in ((1, 0.01), (50, 0.05), (1000, 0.3)):
        assert (rng.binomial(draws_to_hold(n, share), share, size=20_000) >= n).all()
