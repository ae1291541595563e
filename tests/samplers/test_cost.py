"""A sampler asks for the draws that it needs, and says how many it needed."""

import math

import numpy as np
import pytest

import quasir as qr
from quasir.core.streams import BLOCK
from quasir.samplers.base import warn_if_hopeless
from tests.sequences import Unlisted

EVEN = qr.Table({"a": 0.5, "b": 0.5})
HALF = qr.Table({"a": 1.0})


class Counting(Unlisted):
    """A proposal that counts what it is asked for, and whose support is not listed."""

    prefix_stable = True

    def __init__(self):
        super().__init__(EVEN)
        self.asked = []

    def sample(self, n, rng):
        self.asked.append(n)
        return super().sample(n, rng)


EVERY = {
    "QRS": lambda q: qr.QRS(EVEN, q, beta=1),
    "RS": lambda q: qr.RS(EVEN, q, beta=1),
    "RejectionControl": lambda q: qr.RejectionControl(EVEN, q, beta=1),
    "EmpiricalSupremum": lambda q: qr.EmpiricalSupremum(EVEN, q),
}


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("blocks", [1, 2, 3, 10, 64, 65, 66, 130])
def test_where_every_draw_is_accepted_n_draws_are_asked_for(name, blocks):
    for n in (blocks * BLOCK, blocks * BLOCK - 1, (blocks - 1) * BLOCK + 1):
        q = Counting()
        samples = EVERY[name](q).sample(n, seed=0)
        assert samples.proposals == n
        assert samples.acceptance_rate == 1
        assert sum(q.asked) == blocks * BLOCK


@pytest.mark.parametrize(
    "make",
    [
        lambda q: qr.QRS(HALF, q, beta=2),
        lambda q: qr.RS(HALF, q, beta=2),
        lambda q: qr.RejectionControl(HALF, q, beta=2),
    ],
)
def test_where_half_is_accepted_twice_n_draws_are_asked_for(make):
    """The rate is known to 5 sd from what was seen; a block may be begun for nothing."""
    for n in (10, 5000, 50_000):
        q = Counting()
        samples = make(q).sample(n, seed=1)
        draws = qr.draw(HALF, EVEN, samples.proposals, seed=1)
        assert len(draws.accepted(2)) == n == len(samples)
        assert draws.accepted(2)[-1] == samples.proposals - 1
        assert sum(q.asked) <= 2 * n * (1 + 5 / math.sqrt(n)) + 3 * BLOCK
        assert sum(q.asked) - samples.proposals <= 0.1 * samples.proposals + BLOCK


@pytest.mark.parametrize("rate", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("n", [1, 100, 3000])
def test_algorithm_2_asks_for_n_over_its_rate(rate, n):
    q = Counting()
    samples = qr.IncrementalQRS(EVEN, q, rate).sample(n, seed=0)
    assert sum(q.asked) == samples.proposals == math.floor(n / rate)


@pytest.mark.parametrize(
    ("schedule", "states"),
    [
        ({}, lambda n: 1 + n),
        ({"burn_in": 1500, "thin": 3}, lambda n: 1 + 1500 + 3 * n),
        ({"burn_in": 70_000}, lambda n: 1 + 70_000 + n),  # more than is proposed at once
        ({"reset": 7}, lambda n: 7 * n),
        ({"reset": 1000}, lambda n: 1000 * n),
    ],
)
def test_a_chain_asks_for_its_states(schedule, states):
    for n in (1, 100, 2000) if schedule.get("reset") != 1000 else (1, 100):
        q = Counting()
        samples = qr.IMH(EVEN, q, **schedule).sample(n, seed=0)
        assert samples.proposals == states(n)
        assert sum(q.asked) == BLOCK * math.ceil(states(n) / BLOCK)


def test_a_rejection_chain_asks_for_its_states_over_the_rate():
    q = Counting()
    samples = qr.RejectionChain(HALF, q, beta=2, thin=2).sample(5000, seed=0)
    accepted = qr.draw(HALF, EVEN, samples.proposals, seed=0).accepted(2)
    assert len(accepted) == 1 + 2 * 5000
    assert accepted[-1] == samples.proposals - 1
    assert sum(q.asked) <= 1.05 * samples.proposals + BLOCK


@pytest.mark.parametrize(
    ("accepted", "n", "proposals", "warns"),
    [
        (0, 10, 99_999, False),
        (0, 10, 100_000, True),
        (0, 10, 100_000 + 64 * BLOCK - 1, True),
        (0, 10, 100_000 + 64 * BLOCK, False),  # said already
        (0, 10, 999_999, False),
        (0, 10, 1_000_000, True),
        (9, 1000, 100_000, True),
        (10, 1000, 100_000, False),  # 1 % is found
    ],
)
def test_a_hopeless_search_is_warned_of_once_in_each_decade(accepted, n, proposals, warns):
    if not warns:
        warn_if_hopeless(accepted, n, proposals)
        return
    ahead = f"about {proposals * n / accepted:.1e} in all" if accepted else "no end in sight"
    with pytest.warns(qr.errors.QuasirWarning, match=ahead.replace("+", r"\+")):
        warn_if_hopeless(accepted, n, proposals)


def test_a_used_up_budget_says_how_many_are_needed():
    q = Counting()
    with pytest.raises(qr.errors.BudgetExceeded) as error:
        qr.QRS(HALF, q, beta=2).sample(10_000, seed=0, max_proposals=1000)
    found = len(error.value.samples)
    assert sum(q.asked) == 1000 == error.value.samples.proposals
    need = math.ceil(10_000 * 1000 / found)
    assert f"At this rate 10,000 need about {need:.2g} proposals" in str(error.value)
    assert 400 < found < 600


@pytest.mark.parametrize(("rate", "above"), [(0.6, False), (0.4, True), (0.05, True)])
def test_a_beta_above_every_ratio_is_said_with_the_largest_of_them(rate, above):
    """The ratios are 0.5 and 2, and the mean of min(1, w/beta) is 1/2 at beta = 2."""
    target, proposal = qr.Table({"a": 1 / 3, "b": 2 / 3}), qr.Table({"a": 2 / 3, "b": 1 / 3})
    samples = qr.IncrementalQRS(target, proposal, rate).sample(3000, seed=0)
    assert (samples.beta > 2) == above
    said = [warning for warning in samples.warnings if "above every ratio seen" in warning]
    assert len(said) == above
    assert all("the largest being 2:" in warning for warning in said)


@pytest.mark.parametrize("equal", [1, 8, 32])
def test_a_pool_is_worth_its_draws_of_equal_weight(equal):
    log_p = np.where(np.arange(60) < equal, 700.0, -np.inf)
    draws = qr.Draws.from_arrays(log_p, np.zeros(60), items=np.arange(60))
    sampler = qr.SIR(EVEN, EVEN, pool=60)
    assert sampler.replay(draws, equal).warnings == ()
    (warning,) = sampler.replay(draws, equal + 1).warnings
    assert f"is worth {equal:.1f} by its weights, fewer than the {equal + 1} samples" in warning
    assert set(sampler.replay(draws, 2000).items.tolist()) == set(range(equal))


def test_no_sampler_prints_unless_it_is_asked_to(capfd):
    for make in (
        *EVERY.values(),
        lambda q: qr.IncrementalQRS(EVEN, q, 0.5),
        lambda q: qr.SIR(EVEN, q, pool=100),
        lambda q: qr.IMH(EVEN, q),
        lambda q: qr.RejectionChain(EVEN, q, beta=1),
    ):
        make(EVEN).sample(3, seed=0)
        assert capfd.readouterr() == ("", "")
        make(EVEN).sample(3, seed=0, progress=True)
        out, err = capfd.readouterr()
        assert out == ""
        assert err


def test_where_nothing_is_possible_no_beta_is_too_high():
    draws = qr.Draws.from_arrays(np.full(50, -np.inf), np.zeros(50), items=["a"] * 50)
    samples = qr.IncrementalQRS(HALF, EVEN, acceptance_rate=0.1).replay(draws)
    assert len(samples) == 0
    (warning,) = samples.warnings
    assert "0 of 50 proposals had P(x) > 0" in warning


@pytest.mark.parametrize(("rate", "count"), [(0.001, 1), (0.002, 1), (0.003, 1), (0.004, 2)])
def test_a_replay_of_few_draws_gives_at_least_one_sample_and_no_more_than_the_rate(rate, count):
    draws = qr.draw(EVEN, EVEN, 500, seed=0)
    assert len(qr.IncrementalQRS(EVEN, EVEN, acceptance_rate=rate).replay(draws)) == count
