import math

import numpy as np
import pytest
from scipy import stats

import quasir as qr
from quasir.core.streams import BLOCK
from quasir.samplers.incremental_qrs import BestDraws

TARGET = qr.from_scipy(stats.poisson(11))
PROPOSAL = qr.from_scipy(stats.poisson(10))
RARE_TARGET = qr.Table({"a": 1.0})
RARE = qr.Table({"a": 1e-6, "b": 1 - 1e-6})


class Hidden:
    """A proposal whose support is not listed."""

    def __init__(self, proposal):
        self._proposal = proposal

    def sample(self, n, rng):
        return self._proposal.sample(n, rng)

    def log_prob(self, items):
        return self._proposal.log_prob(items)


@pytest.mark.parametrize("n", [1, 10, 1000, 5000])
def test_qrs_gives_the_first_n_that_draws_accept(n):
    samples = qr.QRS(TARGET, PROPOSAL, beta=3).sample(n, seed=8)
    draws = qr.draw(TARGET, PROPOSAL, samples.proposals, seed=8)
    accepted = draws.accepted(3)
    assert len(samples) == n == len(accepted)
    np.testing.assert_array_equal(samples.items, draws.items[accepted])
    assert accepted[-1] == samples.proposals - 1
    assert samples.acceptance_rate == n / samples.proposals
    assert samples.beta == pytest.approx(3)


def test_batch_size_changes_no_sample():
    sampler = qr.QRS(TARGET, PROPOSAL, beta=3)
    a, b = sampler.sample(500, seed=1), sampler.sample(500, seed=1, batch_size=17)
    np.testing.assert_array_equal(a.items, b.items)
    sampler = qr.IncrementalQRS(TARGET, PROPOSAL, acceptance_rate=0.1)
    a, b = sampler.sample(500, seed=1), sampler.sample(500, seed=1, batch_size=17)
    np.testing.assert_array_equal(a.items, b.items)
    assert a.beta == b.beta


def test_log_p_beta_is_normalised_and_not_log_q():
    sampler = qr.QRS(TARGET, PROPOSAL, beta=2)
    support = np.arange(80)
    assert np.exp(sampler.log_prob(support)).sum() == pytest.approx(1, abs=1e-12)
    samples = sampler.sample(100, seed=0)
    np.testing.assert_allclose(samples.log_p_beta, sampler.log_prob(samples.items), rtol=1e-12)
    assert np.abs(samples.log_p_beta - samples.log_q).max() > 0.1
    np.testing.assert_allclose(samples.log_q, stats.poisson(10).logpmf(samples.items))
    np.testing.assert_allclose(samples.log_p, stats.poisson(11).logpmf(samples.items))


def test_where_the_support_is_not_listed_z_beta_is_estimated():
    exact = qr.QRS(TARGET, PROPOSAL, beta=2)
    asked = qr.QRS(TARGET, Hidden(PROPOSAL), beta=2)
    items = np.arange(5, 15)
    np.testing.assert_allclose(asked.log_prob(items), exact.log_prob(items), atol=0.02)
    drawn = qr.QRS(TARGET, Hidden(PROPOSAL), beta=2)
    samples = drawn.sample(20_000, seed=3)
    np.testing.assert_allclose(drawn.log_prob(samples.items), samples.log_p_beta)
    np.testing.assert_allclose(drawn.log_prob(items), exact.log_prob(items), atol=0.02)
    some = qr.IncrementalQRS(TARGET, Hidden(PROPOSAL), 0.4).sample(5000, seed=1)
    listed = qr.IncrementalQRS(TARGET, PROPOSAL, 0.4).sample(5000, seed=1)
    np.testing.assert_allclose(some.log_p_beta, listed.log_p_beta, atol=0.06)


@pytest.mark.parametrize("scale", [-800.0, 800.0])
def test_scaling_by_e_to_the_800_changes_no_sample(scale):
    def scaled(items):
        return TARGET.log_score(items) + scale

    plain = qr.QRS(TARGET, PROPOSAL, beta=2).sample(200, seed=0)
    far = qr.QRS(scaled, PROPOSAL, log_beta=math.log(2) + scale).sample(200, seed=0)
    np.testing.assert_array_equal(plain.items, far.items)
    np.testing.assert_allclose(plain.log_p_beta, far.log_p_beta, atol=1e-9)
    a = qr.IncrementalQRS(TARGET, PROPOSAL, 0.1).sample(200, seed=0)
    b = qr.IncrementalQRS(scaled, PROPOSAL, 0.1).sample(200, seed=0)
    np.testing.assert_array_equal(a.items, b.items)
    assert b.log_beta == pytest.approx(a.log_beta + scale)


def test_a_budget_keeps_what_was_found():
    sampler = qr.QRS(TARGET, PROPOSAL, beta=100)
    with pytest.raises(qr.BudgetExceeded) as error:
        sampler.sample(1000, seed=0, max_proposals=5000)
    found = error.value.samples
    assert found.proposals == 5000
    draws = qr.draw(TARGET, PROPOSAL, 5000, seed=0)
    np.testing.assert_array_equal(found.items, draws.items[draws.accepted(100)])
    assert f"gave {len(found)} of 1,000" in str(error.value)
    assert len(sampler.sample(len(found), seed=0, max_proposals=5000)) == len(found)
    with pytest.raises(qr.BudgetExceeded, match="Nothing was accepted"):
        qr.QRS(RARE_TARGET, RARE, beta=1).sample(1, seed=0, max_proposals=10)


def test_a_budget_of_the_incremental_sampler():
    sampler = qr.IncrementalQRS(TARGET, PROPOSAL, acceptance_rate=0.1)
    with pytest.raises(qr.BudgetExceeded) as error:
        sampler.sample(1000, seed=0, max_proposals=3000)
    found = error.value.samples
    assert found.proposals == 3000
    assert len(found) == 1000
    assert found.beta < sampler.sample(1000, seed=0).beta
    with pytest.raises(qr.BudgetExceeded) as error:
        qr.IncrementalQRS(RARE_TARGET, RARE, 0.5).sample(10, seed=0, max_proposals=2000)
    assert len(error.value.samples) == 0


def test_a_hopeless_search_is_told_of():
    with (
        pytest.warns(qr.QuasirWarning, match="no end in sight"),
        pytest.raises(qr.BudgetExceeded),
    ):
        qr.QRS(RARE_TARGET, RARE, beta=1e9).sample(10, seed=0, max_proposals=300_000)


def test_rejection_sampling_refuses_a_bound_that_does_not_hold():
    with pytest.raises(qr.RatioExceededError) as error:
        qr.RS(TARGET, PROPOSAL, beta=2).sample(1000, seed=0)
    assert "above beta = 2" in str(error.value)
    drawn = qr.draw(TARGET, PROPOSAL, BLOCK, seed=0)
    largest = drawn.items[np.argmax(drawn.log_ratio)]
    assert f"for np.int64({largest})" in str(error.value)
    target, proposal = qr.Table({"a": 0.5, "b": 0.5}), qr.Table({"a": 0.9, "b": 0.1})
    samples = qr.RS(target, proposal, beta=5).sample(100, seed=0)
    np.testing.assert_allclose(samples.log_p_beta, math.log(0.5))


def test_incremental_keeps_the_top_fraction_by_alpha():
    samples = qr.IncrementalQRS(TARGET, PROPOSAL, acceptance_rate=0.1).sample(300, seed=2)
    draws = qr.draw(TARGET, PROPOSAL, 3000, seed=2)
    assert samples.proposals == 3000
    alpha = np.sort(draws.log_alpha)
    assert samples.log_beta == alpha[-301]
    np.testing.assert_array_equal(samples.items, draws.items[draws.accepted(samples.beta)])


@pytest.mark.parametrize(("n", "rate"), [(300, 0.1), (1, 0.5), (700, 1 / 3)])
def test_incremental_replays_stored_draws(n, rate):
    sampler = qr.IncrementalQRS(TARGET, PROPOSAL, rate)
    draws = qr.draw(TARGET, PROPOSAL, 5000, seed=6)
    stored, live = sampler.replay(draws, n), sampler.sample(n, seed=6)
    np.testing.assert_array_equal(stored.items, live.items)
    assert stored.log_beta == live.log_beta
    assert stored.proposals == live.proposals
    every = sampler.replay(draws)
    assert len(every) == math.floor(5000 * rate)
    assert every.proposals == 5000
    with pytest.raises(qr.BudgetExceeded) as error:
        sampler.replay(draws, math.ceil(5001 * rate))
    assert len(error.value.samples) > 0


def test_incremental_goes_on_where_the_rate_is_out_of_reach():
    target, proposal = qr.Table({"a": 1.0}), qr.Table({"a": 0.2, "b": 0.8})
    sampler = qr.IncrementalQRS(target, proposal, 0.5)
    draws = qr.draw(target, proposal, 4096, seed=1)
    stored, live = sampler.replay(draws, 300), sampler.sample(300, seed=1)
    assert stored.proposals == live.proposals > 600
    assert stored.log_beta == -math.inf
    assert "out of reach" in stored.doubts[0]
    assert len(sampler.replay(draws)) == (draws.log_p > -np.inf).sum()
    with pytest.raises(qr.BudgetExceeded):
        sampler.replay(draws, 1500)


def test_incremental_holds_no_more_than_twice_n():
    sampler = qr.IncrementalQRS(TARGET, PROPOSAL, acceptance_rate=1e-4)
    best = BestDraws(sampler, 10, enough=100_000)
    for start in range(20):
        best.add(qr.draw(TARGET, PROPOSAL, 5000, seed=start))
        assert best.held <= 22
    assert best.seen == 100_000
    assert len(best.result()) == 10


def test_incremental_beyond_every_ratio_says_so():
    samples = qr.IncrementalQRS(TARGET, PROPOSAL, acceptance_rate=0.01).sample(100, seed=0)
    assert samples.beta > 20
    assert any("above every ratio seen" in doubt for doubt in samples.doubts)


def test_incremental_where_the_rate_is_out_of_reach():
    half = qr.Table({"a": 1.0, "b": 2.0})
    proposal = qr.Table({"a": 0.25, "b": 0.25, "c": 0.5})
    samples = qr.IncrementalQRS(half, proposal, acceptance_rate=0.9).sample(3000, seed=0)
    assert len(samples) == 3000
    assert samples.log_beta == -math.inf
    assert samples.acceptance_rate == pytest.approx(0.5, abs=0.05)
    assert any("out of reach" in doubt for doubt in samples.doubts)
    # The limit beta -> 0 is q filtered to the support: half a, half b, whatever P says.
    assert np.mean([item == "a" for item in samples.items]) == pytest.approx(0.5, abs=0.05)
    np.testing.assert_allclose(samples.log_p_beta, math.log(0.5), atol=0.1)


def test_incremental_at_rate_one():
    samples = qr.IncrementalQRS(TARGET, PROPOSAL, acceptance_rate=1).sample(2000, seed=0)
    assert samples.proposals == 2000
    np.testing.assert_array_equal(samples.items, qr.draw(TARGET, PROPOSAL, 2000, seed=0).items)


@pytest.mark.parametrize("rate", [0, -0.1, 1.5, math.nan, "a", True])
def test_a_wrong_rate_is_refused(rate):
    with pytest.raises(qr.InputError, match="acceptance_rate"):
        qr.IncrementalQRS(TARGET, PROPOSAL, acceptance_rate=rate)


@pytest.mark.parametrize("beta", [0, -1, math.inf, math.nan, "2", None, True])
def test_a_wrong_beta_is_refused(beta):
    with pytest.raises(qr.InputError, match="beta"):
        qr.QRS(TARGET, PROPOSAL, beta=beta)


@pytest.mark.parametrize(
    "sampler", [qr.QRS(TARGET, PROPOSAL, 2), qr.IncrementalQRS(TARGET, PROPOSAL, 0.5)]
)
def test_wrong_counts_are_refused(sampler):
    for wrong in (0, -3, 1.5):
        with pytest.raises(qr.InputError, match="n is"):
            sampler.sample(wrong, seed=0)
        with pytest.raises(qr.InputError, match="max_proposals is"):
            sampler.sample(1, seed=0, max_proposals=wrong)


def test_few_samples_need_few_proposals():
    """A proposal that is dear is asked for one block, not for sixty-four."""
    asked = []

    class Counting(Hidden):
        def sample(self, n, rng):
            asked.append(n)
            return super().sample(n, rng)

    qr.QRS(TARGET, Counting(PROPOSAL), beta=2).sample(100, seed=0)
    assert sum(asked) == BLOCK
    asked.clear()
    qr.QRS(TARGET, Counting(PROPOSAL), beta=2).sample(10_000, seed=0)
    assert sum(asked) <= 20_000 + 3 * BLOCK


def test_progress_and_repr(capsys):
    samples = qr.QRS(TARGET, PROPOSAL, beta=2).sample(1000, seed=0, progress=True)
    assert "1,000/1,000 accepted" in capsys.readouterr().err
    assert "1,000 accepted of" in repr(samples)
