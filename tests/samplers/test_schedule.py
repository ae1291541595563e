"""Chains: where they start, what they count, and what is said where they cannot start."""

from itertools import pairwise

import numpy as np
import pytest

import quasir as qr
from quasir.samplers.imh import IndependentChain
from quasir.samplers.schedule import Schedule, stuck
from tests.sequences import TableEditor, every_sequence, table_of, weights_of

SEQUENCES = every_sequence(3, 0, 3)
STARTS = table_of(SEQUENCES, np.ones(len(SEQUENCES)))
TARGET = table_of(SEQUENCES, 1.0 + weights_of(SEQUENCES, seed=5))


def test_chains_that_cannot_start_are_warned_of():
    """No draw of the proposal is possible; a chain that has started warns of nothing."""
    nothing = TARGET * qr.Feature("never", lambda x: False)
    walk = qr.RWMH(nothing, STARTS, TableEditor(), max_tokens=3, chains=2)
    with (
        pytest.warns(qr.errors.QuasirWarning, match="no end in sight"),
        pytest.raises(qr.errors.BudgetExceeded) as error,
    ):
        walk.sample(4, seed=0, max_proposals=110_000)
    assert len(error.value.samples) == 0
    assert error.value.samples.proposals == 110_000


@pytest.mark.parametrize("chains", [1, 3, 20])
def test_the_starts_and_the_steps_are_what_was_proposed(chains):
    """Every sequence is possible, so the first draws are the starts: one for each chain."""
    walk = qr.RWMH(TARGET, STARTS, TableEditor(), max_tokens=3, chains=chains, burn_in=5, thin=2)
    samples = walk.sample(60, seed=1)
    assert samples.proposals == chains + chains * 5 + 2 * 60
    assert samples.steps == chains * 5 + 2 * 60
    assert 0 < samples.moves <= samples.steps


@pytest.mark.parametrize(
    ("longest", "steps", "warned"),
    [(20, 20, False), (21, 21, True), (20, 10, False), (100, 1000, False), (101, 1000, True)],
)
def test_a_stay_of_more_than_a_tenth_is_warned(longest, steps, warned):
    assert bool(stuck(longest, steps)) == warned


@pytest.mark.parametrize(
    ("schedule", "first", "states"),
    [
        (Schedule(), 2, 6),
        (Schedule(burn_in=10), 12, 16),
        (Schedule(burn_in=10, thin=3), 14, 26),
        (Schedule(reset=4), 4, 20),
    ],
)
def test_states_up_to_the_first_sample_and_up_to_the_fifth(schedule, first, states):
    assert schedule.first == first
    assert schedule.states_for(5) == states
    starts, samples, done = schedule.cut(np.ones(states, dtype=bool), 0)
    assert len(samples) == 5
    assert samples[0] == first - 1
    assert samples[-1] == states - 1
    assert starts[0] == 0
    assert done == (states if schedule.reset is None else 0)


def chain_over(draws, edges, schedule, log_beta):
    """Run a chain over pieces of draws; return what it found and counted."""
    chain = IndependentChain(schedule, None, log_beta)
    for first, last in pairwise(edges):
        chain.add(draws.take(np.arange(first, last)))
    counts = chain.proposals, chain.seen, chain.steps, chain.moves, chain.longest_stay
    return chain.kept.items.tolist(), counts


@pytest.mark.parametrize("heavy", [0, 1, 4, 5, 6, 11])
@pytest.mark.parametrize("log_beta", [None, 0.5])
@pytest.mark.parametrize("schedule", [Schedule(), Schedule(burn_in=2, thin=3), Schedule(reset=5)])
def test_a_chain_is_the_same_wherever_its_draws_are_cut(heavy, log_beta, schedule):
    """A draw of great weight holds the chain to the end of its piece, and over whole pieces."""
    rng = np.random.default_rng(heavy)
    log_w = rng.normal(size=12)
    log_w[heavy] = 30.0
    log_w[2] = -np.inf
    draws = qr.Draws.from_arrays(log_w, np.zeros(12), items=np.arange(12), seed=heavy)
    whole = chain_over(draws, [0, 12], schedule, log_beta)
    for cut in range(1, 12):
        assert chain_over(draws, [0, cut, 12], schedule, log_beta) == whole
        for other in range(cut + 1, 12):
            assert chain_over(draws, [0, cut, other, 12], schedule, log_beta) == whole


@pytest.mark.parametrize("heavy", [0, 5])
def test_steps_moves_and_stays_of_a_chain_that_is_known(heavy):
    """All weights are equal, so that each candidate is moved to; but one holds for ever."""
    log_w = np.zeros(12)
    log_w[heavy] = 1000.0
    draws = qr.Draws.from_arrays(log_w, np.zeros(12), items=np.arange(12), seed=0)
    found, counts = chain_over(draws, [0, 12], Schedule(), None)
    assert found == [min(i, heavy) for i in range(1, 12)]
    assert counts == (12, 12, 11, heavy, 11 - heavy)


@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_starts_that_are_too_long_cost_a_proposal_and_no_more(n):
    """A chain of one state is its start; live and stored draws give the same, at the same cost."""
    long = qr.Table({(0, 1, 2, 0): 0.5, (1, 2): 0.25, (2,): 0.25})
    flat = qr.Table({(0, 1, 2, 0): 0.5, (1, 2): 0.25, (2,): 0.25})
    draws = qr.draw(flat, long, 400, seed=3)
    short = [i for i, item in enumerate(draws.items) if len(item) <= 3]
    walk = qr.RWMH(flat, long, TableEditor(), max_tokens=3, reset=1)
    for samples in (walk.sample(n, seed=3), walk.sample_from(draws, n, seed=3)):
        assert list(samples.items) == [draws.items[i] for i in short[:n]]
        assert samples.proposals == short[n - 1] + 1


@pytest.mark.parametrize(("chains", "n"), [(1, 30), (1, 90), (3, 120)])
def test_a_chain_that_never_moves_stayed_for_all_its_steps(chains, n):
    """Only one sequence is possible, so every move is refused."""
    alone = qr.Table({(1, 2): 1.0})
    walk = qr.RWMH(alone, alone, TableEditor(), max_tokens=3, chains=chains)
    samples = walk.sample(n, seed=0)
    assert samples.moves == 0
    assert samples.steps == n
    (warning,) = samples.warnings
    assert f"stayed on one state for {n // chains} of {n // chains} steps" in warning
