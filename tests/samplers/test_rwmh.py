"""Random-walk Metropolis-Hastings: chains side by side, starts, limits and refusals."""

from itertools import pairwise

import numpy as np
import pytest

import quasir as qr
from quasir.samplers import RWMH
from quasir.samplers.rwmh import Edit, Limits, choose_edit
from tests.sequences import TableEditor, every_sequence, table_of, weights_of

SEQUENCES = every_sequence(3, 0, 3)
WEIGHTS = weights_of(SEQUENCES, seed=5)
TARGET = table_of(SEQUENCES, WEIGHTS)
PROPOSAL = table_of(SEQUENCES, np.ones(len(SEQUENCES)))


def sampler(target=TARGET, proposal=PROPOSAL, **settings):
    return RWMH(target, proposal, TableEditor(), max_tokens=3, **settings)


def test_a_chain_does_not_depend_on_how_many_there_are():
    few = sampler(chains=4, thin=2).sample(20, seed=1)
    many = sampler(chains=10, thin=2).sample(50, seed=1)
    for c in range(4):
        assert list(few.items)[c::4] == list(many.items)[c::10]
    one_each = sampler(reset=9).sample(12, seed=1)
    again = sampler(reset=9).sample(5, seed=1)
    assert list(one_each.items)[:5] == list(again.items)


def test_chains_start_at_the_first_possible_draws():
    draws = qr.draw(TARGET, PROPOSAL, 3000, seed=2)
    possible = np.flatnonzero(draws.log_p > -np.inf)
    for n in (1, 50, 1500):
        samples = sampler(reset=1).sample(n, seed=2)
        assert list(samples.items) == list(draws.items[possible[:n]])
        assert samples.proposals == possible[n - 1] + 1
        np.testing.assert_array_equal(samples.log_p, draws.log_p[possible[:n]])


def test_moves_are_counted():
    chain = sampler().sample(500, seed=4)
    start = sampler(reset=1).sample(1, seed=4).items[0]
    states = [start, *chain.items]
    assert chain.steps == 500
    changes = sum(a != b for a, b in pairwise(states))
    assert chain.moves == changes
    assert chain.distance.startswith("unknown: ")
    assert max(map(len, chain.items)) == 3


def test_a_boost_proposes_its_word_more_often():
    plain, more = sampler(), sampler(boost={"two": 0.5})
    masked, at = [(0, -1)], np.array([1])
    before, after = plain.token_probs(masked, at)[0], more.token_probs(masked, at)[0]
    np.testing.assert_allclose(after, 0.5 * before + [0, 0, 0.5])


def test_a_stuck_chain_is_warned():
    peak = {x: 1e-12 for x in SEQUENCES} | {(2, 2, 2): 1.0}
    chain = sampler(qr.Table(peak)).sample(1000, seed=0)
    assert "stayed on one state" in chain.warnings[0]
    assert sampler(PROPOSAL).sample(1000, seed=0).warnings == ()


def test_one_stuck_chain_beside_others_that_move_is_warned():
    island = {x: 1e-12 if x.count(2) == 2 else 1.0 for x in SEQUENCES}
    starts = qr.Table({(2, 2, 2): 0.5, (0,): 0.5})
    chains = sampler(qr.Table(island), starts, chains=4).sample(4000, seed=0)
    alone = [chains.items[c::4] for c in range(4)]
    still = [len(set(items)) == 1 for items in alone]
    assert any(still)
    assert not all(still)
    assert "stayed on one state" in chains.warnings[0]


def test_edits():
    assert Edit("delete", 0).applied((7, 8), 0) == (8,)
    assert Edit("replace", 1).applied((7, 8), 5) == (7, 5)
    assert Edit("insert", 2).applied((7, 8), 5) == (7, 8, 5)
    for edit in (Edit("delete", 1), Edit("replace", 1), Edit("insert", 1)):
        x = (7, 8, 9)
        y = edit.applied(x, 5)
        assert edit.masked(x) == edit.reverse.masked(y)
        assert edit.reverse.applied(y, 8) == x
    limits = Limits(1, 2)
    assert limits.legal(1) == ("insert", "replace")
    assert choose_edit(2, limits, 0.99, 0.99) == Edit("replace", 1)
    assert Edit("insert", 0).log_prob(2, limits) == -np.inf


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"min_tokens": 4}, "min_tokens is 4"),
        ({"boost": {1: 1.5}}, "sum to less than 1"),
        ({"boost": {1: 0.6, 2: 0.5}}, "sum to less than 1"),
        ({"boost": {1: "a"}}, "boost of 1"),
        ({"chains": 0}, "chains"),
        ({"reset": 3, "thin": 2}, "reset"),
    ],
    ids=str,
)
def test_wrong_settings_are_refused(wrong, says):
    with pytest.raises(qr.errors.InputError, match=says):
        sampler(**wrong)


def test_wrong_editors_are_refused():
    class Halves:
        def log_token_probs(self, sequences, positions):
            return np.full((len(sequences), 3), np.log(0.5))

    with pytest.raises(qr.errors.InputError, match="log_token_probs"):
        RWMH(TARGET, PROPOSAL, object(), max_tokens=3)
    with pytest.raises(qr.errors.InputError, match="give max_tokens"):
        RWMH(TARGET, PROPOSAL, TableEditor())
    with pytest.raises(qr.errors.InputError, match="no token_id"):
        RWMH(TARGET, PROPOSAL, Halves(), max_tokens=3, boost={"two": 0.1})
    with pytest.raises(qr.errors.ScoreError, match="sum to 1"):
        RWMH(TARGET, PROPOSAL, Halves(), max_tokens=3).sample(1, seed=0)


class Silent:
    """A proposal that must not be asked."""

    def sample(self, n, rng):
        raise AssertionError

    def log_prob(self, items):
        raise AssertionError


def test_chains_start_at_stored_draws():
    """On draws of the same seed they are those of live ones, and the proposal is not asked."""
    draws = qr.draw(TARGET, PROPOSAL, 3000, seed=2)
    for schedule in ({"reset": 7}, {"chains": 9, "thin": 4}):
        live = sampler(**schedule).sample(45, seed=2)
        stored = sampler(proposal=Silent(), **schedule).sample_from(draws, 45, seed=2)
        assert list(stored.items) == list(live.items)
        assert stored.proposals == live.proposals
    later = sampler(reset=7).sample_from(draws.take(np.arange(500, 3000)), 45, seed=2)
    assert list(later.items) != list(sampler(reset=7).sample(45, seed=2).items)


def test_too_few_stored_draws_to_start_at_are_refused():
    draws = qr.draw(TARGET, PROPOSAL, 40, seed=2)
    possible = int((draws.log_p > -np.inf).sum())
    assert possible < 40
    assert len(sampler(reset=2).sample_from(draws, possible, seed=2)) == possible
    with pytest.raises(qr.errors.InputError, match=f"stored draws hold {possible} "):
        sampler(reset=2).sample_from(draws, possible + 1, seed=2)


def test_chains_that_cannot_start_are_warned_of():
    """No draw of the proposal is possible; a chain that has started warns of nothing."""
    nothing = PROPOSAL * qr.Feature("never", lambda x: False)
    walk = sampler(nothing, chains=2)
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
    walk = sampler(PROPOSAL, chains=chains, burn_in=5, thin=2)
    samples = walk.sample(60, seed=1)
    assert samples.proposals == chains + chains * 5 + 2 * 60
    assert samples.steps == chains * 5 + 2 * 60
    assert 0 < samples.moves <= samples.steps


@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_starts_that_are_too_long_cost_a_proposal_and_no_more(n):
    """A chain of one state is its start; live and stored draws give the same, at the same cost."""
    long = qr.Table({(0, 1, 2, 0): 0.5, (1, 2): 0.25, (2,): 0.25})
    draws = qr.draw(long, long, 400, seed=3)
    short = [i for i, item in enumerate(draws.items) if len(item) <= 3]
    walk = sampler(long, long, reset=1)
    for samples in (walk.sample(n, seed=3), walk.sample_from(draws, n, seed=3)):
        assert list(samples.items) == [draws.items[i] for i in short[:n]]
        assert samples.proposals == short[n - 1] + 1
