"""IMH and the other samplers of pools: against Algorithm 3 as it is printed, step by step."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import quasir as qr
from quasir.samplers import IMH, SIR, EmpiricalSupremum, RejectionChain, RejectionControl
from quasir.samplers.base import Schedule, stuck
from quasir.samplers.imh import IndependentChain, chain_states

TARGET = qr.from_scipy(stats.poisson(11))
PROPOSAL = qr.from_scipy(stats.poisson(10))
HALF = qr.Table({"a": 3.0, "b": 1.0, "d": 0.2})
WIDE = qr.Table({"a": 0.2, "b": 0.2, "c": 0.5, "d": 0.1})


def algorithm_3(draws, starts, log_beta=None):
    """Return the place of the state after each draw, by the loop as it is printed.

    With a beta, draws that QRS rejects are no steps (None).
    """
    w, states, here = np.exp(draws.log_ratio), [], None
    u = np.exp(draws.log_u)
    for j in range(len(draws)):
        if log_beta is not None:
            beta = math.exp(log_beta)
            if not u[j] < min(1, w[j] / beta):
                states.append(None)
                continue
            weight, v = max(1, w[j] / beta), u[j] / min(1, w[j] / beta)
            weight_here = None if here is None else max(1, w[here] / beta)
        else:
            weight, v, weight_here = w[j], u[j], None if here is None else w[here]
        starting = j in starts or here is None
        if (starting and weight > 0) or (not starting and v <= min(1, weight / weight_here)):
            here = j
        states.append(here)
    return states


def by_hand(draws, n, burn_in=0, thin=1, reset=None, log_beta=None):
    """Return the places of the first n samples and how many draws they took."""
    steps = algorithm_3(draws, set(), log_beta)
    candidates = [j for j, state in enumerate(steps) if log_beta is None or state is not None]
    possible = [j for j in candidates if draws.log_p[j] > -math.inf]
    if reset is None:
        first = candidates.index(possible[0])
        at = [candidates[first + burn_in + thin * (i + 1)] for i in range(n)]
        return [steps[j] for j in at], at[-1] + 1
    starts, ends, k = [], [], 0
    while len(ends) < n:
        while draws.log_p[candidates[k]] == -math.inf:
            k += 1
        starts.append(candidates[k])
        ends.append(candidates[k + reset - 1])
        k += reset
    again = algorithm_3(draws, set(starts), log_beta)
    return [again[j] for j in ends], ends[-1] + 1


SCHEDULES = [
    {},
    {"burn_in": 7},
    {"burn_in": 1500, "thin": 3},
    {"thin": 40},
    {"reset": 1},
    {"reset": 2},
    {"reset": 10},
    {"reset": 1100},
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("log_beta", [None, math.log(2.0)], ids=["IMH", "RejectionChain"])
@pytest.mark.parametrize(
    ("target", "proposal"), [(TARGET, PROPOSAL), (HALF, WIDE)], ids=["Poisson", "half impossible"]
)
def test_live_and_stored_draws_give_algorithm_3(target, proposal, log_beta, schedule):
    make = IMH if log_beta is None else RejectionChain
    level = {} if log_beta is None else {"log_beta": log_beta}
    sampler = make(target, proposal, **level, **schedule)
    n = 9 if schedule.get("reset") == 1100 else 60
    draws = qr.draw(target, proposal, 60_000, seed=3)
    places, proposals = by_hand(draws.take(np.arange(30_000)), n, log_beta=log_beta, **schedule)
    expected = list(draws.items[places])
    stored, live = sampler.replay(draws, n), sampler.sample(n, seed=3)
    for chain in (stored, live):
        assert list(chain.items) == expected
        assert chain.proposals == proposals
        np.testing.assert_array_equal(chain.log_p, draws.log_p[places])
        np.testing.assert_array_equal(chain.log_q, draws.log_q[places])
        assert len(chain) == n
    assert (stored.steps, stored.moves) == (live.steps, live.moves)
    assert 0 <= live.moves <= live.steps <= proposals


def test_steps_and_moves_are_counted():
    draws = qr.draw(HALF, WIDE, 5000, seed=1)
    chain = IMH(HALF, WIDE).replay(draws, 4000)
    first = int(np.argmax(draws.log_p > -np.inf))
    states = algorithm_3(draws, set())[first : first + 4001]
    assert chain.steps == 4000
    assert chain.moves == sum(a != b for a, b in pairwise(states))
    assert chain.move_rate == chain.moves / 4000
    again = IMH(HALF, WIDE, reset=5).replay(draws, 300)
    assert again.steps == 4 * 300
    assert again.independent
    assert not chain.independent


def naive_states(log_w, log_alpha, level):
    state, states = -1, []
    for j in range(len(log_w)):
        if log_alpha[j] > level:
            state, level = j, log_w[j]
        states.append(state)
    return states


@settings(max_examples=50)
@given(st.integers(1, 400), st.integers(0, 10**6), st.sampled_from([0.0, 0.1, 1.0, 5.0]))
def test_chain_states_is_the_loop(n, seed, spread):
    """Ties, impossible candidates, forced moves and a state from before included."""
    rng = np.random.default_rng(seed)
    log_w = np.round(spread * rng.normal(size=n), 1)
    log_w[rng.random(n) < 0.2] = -np.inf
    log_alpha = log_w + rng.standard_exponential(n).round(1)
    log_alpha[(rng.random(n) < 0.05) & (log_w > -np.inf)] = np.inf
    for level in (-np.inf, 0.3, 4.0):
        assert chain_states(log_w, log_alpha, level).tolist() == naive_states(
            log_w, log_alpha, level
        )
    assert chain_states(log_w[:0], log_alpha[:0]).tolist() == []


@settings(max_examples=50)
@given(st.data())
def test_pieces_cut_anywhere_give_the_same_chains(data):
    n = data.draw(st.integers(1, 60))
    possible = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    if data.draw(st.booleans()):
        schedule = Schedule(reset=data.draw(st.integers(1, 9)))
    else:
        schedule = Schedule(data.draw(st.integers(0, 9)), data.draw(st.integers(1, 5)))
    whole = schedule.cut(possible, 0)
    edges = sorted({0, n, *data.draw(st.lists(st.integers(1, n), max_size=5))})
    starts, samples, done = [], [], 0
    for a, b in pairwise(edges):
        first, last, done = schedule.cut(possible[a:b], done)
        starts += (first + a).tolist()
        samples += (last + a).tolist()
    assert (starts, samples) == (whole[0].tolist(), whole[1].tolist())
    assert done == whole[2]


def test_a_chain_says_that_its_distance_is_unknown():
    for samples in (
        IMH(TARGET, PROPOSAL).sample(10, seed=0),
        IMH(TARGET, PROPOSAL, reset=5).sample(10, seed=0),
        RejectionChain(TARGET, PROPOSAL, 2).sample(10, seed=0),
        SIR(TARGET, PROPOSAL, 100).sample(10, seed=0),
        EmpiricalSupremum(TARGET, PROPOSAL).sample(10, seed=0),
    ):
        assert samples.distance.startswith("unknown: ")
        assert "distance to p unknown" in repr(samples)
    assert IMH(TARGET, PROPOSAL).sample(10, seed=0).tvd_at_most == 1.0
    assert "quasir.tradeoff" in qr.QRS(TARGET, PROPOSAL, 2).sample(10, seed=0).distance
    weighted = RejectionControl(TARGET, PROPOSAL, 2).sample(10, seed=0)
    assert weighted.distance.startswith("0 as n grows")


def test_a_known_bound_bounds_the_distance():
    target, proposal = qr.Table({"a": 0.5, "b": 0.5}), qr.Table({"a": 0.9, "b": 0.1})
    chain = IMH(target, proposal, reset=20, bound=5).sample(10, seed=0)
    assert chain.tvd_at_most == pytest.approx(0.8**20)
    assert chain.distance.startswith("TVD <= 0.0115")
    chain = IMH(target, proposal, burn_in=10, thin=3, bound=5).sample(10, seed=0)
    assert chain.tvd_at_most == pytest.approx(0.8**14)
    with pytest.raises(qr.errors.InputError, match="at least 1"):
        IMH(target, proposal, bound=0.5)


def test_a_stuck_chain_is_warned():
    for longest, steps in ((20, 20), (21, 21), (20, 10), (100, 1000), (101, 1000)):
        assert bool(stuck(longest, steps)) == (longest in (21, 101))
    still = qr.Draws.from_arrays(np.array([0.0, 30.0, *np.zeros(500)]), np.zeros(502))
    chain = IMH(TARGET, PROPOSAL).replay(still)
    assert "stayed on one state for 500 of 501 steps" in chain.warnings[0]
    assert IMH(TARGET, PROPOSAL).replay(qr.draw(TARGET, PROPOSAL, 2000, seed=0)).warnings == ()
    long = IMH(lambda x: np.where(x == 10, 30.0, 0.0), qr.Table(dict.fromkeys(range(2000), 1)))
    chain = long.sample(40_000, seed=0)
    assert "stayed on one state" in chain.warnings[0]
    assert chain.distinct < 5000


def test_replay_without_items_gives_places():
    draws = qr.draw(TARGET, PROPOSAL, 3000, seed=5)
    bare = qr.Draws(log_p=draws.log_p, log_q=draws.log_q, log_u=draws.log_u)
    for sampler in (
        IMH(TARGET, PROPOSAL, thin=3),
        RejectionChain(TARGET, PROPOSAL, 1.5, reset=4),
        EmpiricalSupremum(TARGET, PROPOSAL),
    ):
        np.testing.assert_array_equal(
            draws.items[sampler.replay(bare).items], sampler.replay(draws).items
        )
    sir = SIR(TARGET, PROPOSAL, pool=3000)
    np.testing.assert_array_equal(
        draws.items[sir.replay(bare, 50, seed=5).items], sir.sample(50, seed=5).items
    )


def test_the_supremum_climbs_and_each_sample_knows_its_beta():
    draws = qr.draw(TARGET, PROPOSAL, 4000, seed=0)
    samples = EmpiricalSupremum(TARGET, PROPOSAL).replay(draws)
    beta, kept, betas = -math.inf, [], []
    for i in range(4000):
        beta = max(beta, draws.log_ratio[i])
        if draws.log_u[i] < draws.log_ratio[i] - beta:
            kept.append(i)
            betas.append(beta)
    np.testing.assert_array_equal(samples.items, draws.items[kept])
    np.testing.assert_array_equal(samples.log_betas, betas)
    assert samples.log_beta == draws.log_ratio.max()
    live = EmpiricalSupremum(TARGET, PROPOSAL).sample(len(kept), seed=0)
    np.testing.assert_array_equal(live.items, samples.items)
    assert live.proposals == kept[-1] + 1


def test_weights_of_rejection_control():
    samples = RejectionControl(TARGET, PROPOSAL, beta=2).sample(500, seed=0)
    log_ratio = samples.log_p - samples.log_q
    np.testing.assert_allclose(samples.log_weight, np.maximum(log_ratio - math.log(2), 0))
    assert samples.log_weight.max() > 0
    flat = samples.mean(np.full(500, 3.0))
    assert (flat.value, flat.se) == (pytest.approx(3), pytest.approx(0, abs=1e-12))
    with pytest.raises(qr.errors.InputError, match="for each of the 500 samples"):
        samples.mean([1.0])


@pytest.mark.parametrize(
    "wrong",
    [
        {"burn_in": -1},
        {"thin": 0},
        {"reset": 0},
        {"reset": 1.5},
        {"reset": 5, "thin": 2},
        {"reset": 5, "burn_in": 2},
    ],
    ids=str,
)
def test_wrong_schedules_are_refused(wrong):
    with pytest.raises(qr.errors.InputError, match=next(iter(wrong))):
        IMH(TARGET, PROPOSAL, **wrong)


def test_distinct_items_are_counted():
    for items, count in (
        (np.array([1, 1, 2]), 2),
        (qr.core.items.Strings.of(["a", "b", "a"]), 2),
        (qr.core.items.Coded(("a", "b"), np.array([0, 0])), 1),
        (qr.core.items.as_items([(1, 2), (1,), (1, 2)]), 2),
    ):
        samples = qr.samplers.SampleSet(items=items, log_p=np.zeros(len(items)), proposals=3)
        assert samples.distinct == count


def test_a_budget_counts_draws_where_they_are_stored():
    sampler, draws = IMH(TARGET, PROPOSAL, burn_in=100, thin=10), qr.draw(TARGET, PROPOSAL, 5000, 0)
    with pytest.raises(qr.errors.BudgetExceeded, match="5,000 proposals gave 489 of 1,000"):
        sampler.sample(1000, seed=0, max_proposals=5000)
    with pytest.raises(qr.errors.BudgetExceeded, match="5,000 draws gave 489 of 1,000"):
        sampler.replay(draws, 1000)
    assert len(sampler.replay(draws)) == 489
    with pytest.raises(qr.errors.BudgetExceeded):
        RejectionControl(TARGET, PROPOSAL, beta=2).replay(draws, 4000)
    with pytest.raises(qr.errors.BudgetExceeded, match="none of them with"):
        SIR(qr.Table({"a": 1.0}), qr.Table({"a": 1e-7, "b": 1}), pool=100).sample(1, seed=0)
    with pytest.raises(qr.errors.InputError, match="the pool is 100"):
        SIR(TARGET, PROPOSAL, pool=100).sample(10, max_proposals=50)


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
