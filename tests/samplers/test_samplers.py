import math

import numpy as np
import pytest
from scipy import stats

import quasir as qr
from quasir.core.streams import BLOCK
from quasir.samplers.incremental_qrs import BestDraws
from tests.sequences import Unlisted

TARGET = qr.from_scipy(stats.poisson(11))
PROPOSAL = qr.from_scipy(stats.poisson(10))
RARE_TARGET = qr.Table({"a": 1.0})
RARE = qr.Table({"a": 1e-7, "b": 1 - 1e-7})


@pytest.mark.parametrize("n", [1, 10, 1000, 5000])
def test_qrs_gives_the_first_n_that_draws_accept(n):
    sampler = qr.QRS(TARGET, PROPOSAL, beta=3)
    samples = sampler.sample(n, seed=8)
    draws = qr.draw(TARGET, PROPOSAL, samples.proposals, seed=8)
    accepted = draws.accepted(3)
    assert accepted[-1] == samples.proposals - 1
    for found in (samples, sampler.replay(draws)):
        np.testing.assert_array_equal(found.items, draws.items[accepted])
        assert found.acceptance_rate == n / samples.proposals
        assert found.beta == pytest.approx(3)


EVERY = {
    "QRS": lambda p, q, log_beta: qr.QRS(p, q, log_beta=log_beta),
    "RejectionControl": lambda p, q, log_beta: qr.RejectionControl(p, q, log_beta=log_beta),
    "RejectionChain": lambda p, q, log_beta: qr.RejectionChain(p, q, log_beta=log_beta),
    "IncrementalQRS": lambda p, q, _: qr.IncrementalQRS(p, q, 0.1),
    "EmpiricalSupremum": lambda p, q, _: qr.EmpiricalSupremum(p, q),
    "IMH": lambda p, q, _: qr.IMH(p, q, thin=2),
    "SIR": lambda p, q, _: qr.SIR(p, q, pool=500),
}


@pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)
@pytest.mark.parametrize("scale", [-800.0, 800.0])
def test_scaling_by_e_to_the_800_changes_no_sample(make, scale):
    def scaled(items):
        return TARGET.log_score(items) + scale

    plain = make(TARGET, PROPOSAL, math.log(2)).sample(200, seed=0)
    far = make(scaled, PROPOSAL, math.log(2) + scale).sample(200, seed=0)
    np.testing.assert_array_equal(plain.items, far.items)
    if hasattr(plain, "log_p_beta"):
        np.testing.assert_allclose(plain.log_p_beta, far.log_p_beta, atol=1e-9)
        assert far.log_beta == pytest.approx(plain.log_beta + scale)


@pytest.mark.parametrize("name", ["QRS", "RejectionControl", "EmpiricalSupremum", "IMH"])
def test_a_search_that_finds_nothing_is_warned_of_and_ends_with_its_budget(name):
    sampler = EVERY[name](RARE_TARGET, RARE, math.log(1e9))
    verb = "found" if name == "IMH" else "accepted"
    with pytest.raises(qr.errors.BudgetExceeded, match=f"Nothing was {verb}"):
        sampler.sample(1, seed=0, max_proposals=10)
    with (
        pytest.warns(qr.errors.QuasirWarning, match="no end in sight"),
        pytest.raises(qr.errors.BudgetExceeded),
    ):
        sampler.sample(10, seed=0, max_proposals=200_000)


def test_log_p_beta_is_normalised_and_not_log_q():
    sampler = qr.QRS(TARGET, PROPOSAL, beta=2)
    support = np.arange(80)
    assert np.exp(sampler.log_prob(support)).sum() == pytest.approx(1, abs=1e-12)
    samples = sampler.sample(100, seed=0)
    np.testing.assert_allclose(samples.log_p_beta, sampler.log_prob(samples.items), rtol=1e-12)
    assert np.abs(samples.log_p_beta - samples.log_q).max() > 0.1
    np.testing.assert_allclose(samples.log_q, stats.poisson(10).logpmf(samples.items))
    np.testing.assert_allclose(samples.log_p, stats.poisson(11).logpmf(samples.items))
    for name, value in (("log_beta", 0.0), ("proposal", TARGET), ("target", PROPOSAL)):
        setattr(sampler, name, value)  # the Z_beta of before is not that of now
        assert np.exp(sampler.log_prob(support)).sum() == pytest.approx(1, abs=1e-12)


def test_where_the_support_is_not_listed_z_beta_is_estimated():
    exact = qr.QRS(TARGET, PROPOSAL, beta=2)
    asked = qr.QRS(TARGET, Unlisted(PROPOSAL), beta=2)
    items = np.arange(5, 15)
    np.testing.assert_allclose(asked.log_prob(items), exact.log_prob(items), atol=0.02)
    drawn = qr.QRS(TARGET, Unlisted(PROPOSAL), beta=2)
    samples = drawn.sample(20_000, seed=3)
    np.testing.assert_allclose(drawn.log_prob(samples.items), samples.log_p_beta)
    np.testing.assert_allclose(drawn.log_prob(items), exact.log_prob(items), atol=0.02)
    some = qr.IncrementalQRS(TARGET, Unlisted(PROPOSAL), 0.4).sample(5000, seed=1)
    listed = qr.IncrementalQRS(TARGET, PROPOSAL, 0.4).sample(5000, seed=1)
    np.testing.assert_allclose(some.log_p_beta, listed.log_p_beta, atol=0.06)


def test_a_budget_of_the_incremental_sampler():
    sampler = qr.IncrementalQRS(TARGET, PROPOSAL, acceptance_rate=0.1)
    with pytest.raises(qr.errors.BudgetExceeded) as error:
        sampler.sample(1000, seed=0, max_proposals=3000)
    found = error.value.samples
    assert found.proposals == 3000
    assert len(found) == 1000
    assert found.beta < sampler.sample(1000, seed=0).beta
    with pytest.raises(qr.errors.BudgetExceeded) as error:
        qr.IncrementalQRS(RARE_TARGET, RARE, 0.5).sample(10, seed=0, max_proposals=2000)
    assert len(error.value.samples) == 0


def test_rejection_sampling_refuses_a_bound_that_does_not_hold():
    with pytest.raises(qr.errors.RatioExceededError) as error:
        qr.RS(TARGET, PROPOSAL, beta=2).sample(1000, seed=0)
    assert "above beta = 2" in str(error.value)
    drawn = qr.draw(TARGET, PROPOSAL, BLOCK, seed=0)
    largest = drawn.items[np.argmax(drawn.log_ratio)]
    assert f"for np.int64({largest})" in str(error.value)
    target, proposal = qr.Table({"a": 0.5, "b": 0.5}), qr.Table({"a": 0.9, "b": 0.1})
    samples = qr.RS(target, proposal, beta=5).sample(100, seed=0)
    np.testing.assert_allclose(samples.log_p_beta, math.log(0.5))
    with pytest.raises(qr.errors.RatioExceededError):
        qr.RS(TARGET, PROPOSAL, beta=2).replay(drawn)


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
    with pytest.raises(qr.errors.BudgetExceeded) as error:
        sampler.replay(draws, math.ceil(5001 * rate))
    assert len(error.value.samples) > 0


def test_incremental_holds_no_more_than_twice_n():
    sampler = qr.IncrementalQRS(TARGET, PROPOSAL, acceptance_rate=1e-4)
    best = BestDraws(sampler, 10, enough=100_000)
    for start in range(20):
        best.add(qr.draw(TARGET, PROPOSAL, 5000, seed=start))
        assert best.held <= 22
    assert best.seen == 100_000
    assert len(best.result()) == 10


def test_incremental_where_the_rate_is_out_of_reach():
    half = qr.Table({"a": 1.0, "b": 2.0})
    proposal = qr.Table({"a": 0.25, "b": 0.25, "c": 0.5})
    samples = qr.IncrementalQRS(half, proposal, acceptance_rate=0.9).sample(3000, seed=0)
    assert len(samples) == 3000
    assert samples.log_beta == -math.inf
    assert samples.acceptance_rate == pytest.approx(0.5, abs=0.05)
    assert any("out of reach" in warning for warning in samples.warnings)
    sampler, draws = qr.IncrementalQRS(half, proposal, 0.9), qr.draw(half, proposal, 4096, seed=0)
    assert sampler.replay(draws, 300).proposals == sampler.sample(300, seed=0).proposals > 400
    assert len(sampler.replay(draws)) == (draws.log_p > -np.inf).sum()
    with pytest.raises(qr.errors.BudgetExceeded):
        sampler.replay(draws, 3000)
    # The limit beta -> 0 is q filtered to the support: half a, half b, whatever P says.
    assert np.mean([item == "a" for item in samples.items]) == pytest.approx(0.5, abs=0.05)
    np.testing.assert_allclose(samples.log_p_beta, math.log(0.5), atol=0.1)


CERTAIN = qr.Table({"a": 1.0})
MIXED = qr.Mixture([qr.Table({"a": 0.3, "b": 0.7}), qr.Table({"b": 1.0, "c": 1.0})])


@pytest.mark.parametrize(
    "sampler",
    [
        lambda p, q: qr.QRS(p, q, beta=3.0),
        lambda p, q: qr.RejectionControl(p, q, beta=3.0),
        lambda p, q: qr.RS(p, q, beta=7.0),
        lambda p, q: qr.IncrementalQRS(p, q, acceptance_rate=0.05),
        lambda p, q: qr.IncrementalQRS(p, q, acceptance_rate=0.9),  # beta = 0
    ],
)
def test_no_probability_is_above_1(sampler):
    """log p_beta of the only item was 0.24 with an estimated Z_beta."""
    for seed in range(30):
        made = sampler(CERTAIN, MIXED).sample(10, seed=seed)
        np.testing.assert_allclose(made.log_p_beta, 0.0, atol=1e-15)  # a mixture lists its items
        made = sampler(CERTAIN, Unlisted(MIXED)).sample(10, seed=seed)
        assert (made.log_p_beta <= 0).all()
        assert made.log_p_beta.min() > -1.5
    level = sampler(CERTAIN, Unlisted(MIXED))
    if hasattr(level, "log_prob"):
        assert level.log_prob(["a", "a"]).max() <= 0


def test_a_density_may_be_above_1():
    narrow, wide = (qr.from_scipy(stats.norm(0, s)) for s in (0.1, 1.0))
    undeclared = narrow.log_prob, Unlisted(wide)
    for target, proposal in ((narrow, wide), undeclared):
        made = qr.QRS(target, proposal, beta=11.0).sample(500, seed=0)
        exact = narrow.log_prob(made.items)
        np.testing.assert_allclose(made.log_p_beta, exact, atol=0.1)
        assert made.log_p_beta.max() > 1


def test_a_mixture_lists_what_its_components_can_give():
    assert set(MIXED.support) == {"a", "b", "c"}
    dice = qr.Mixture([qr.from_scipy(stats.randint(1, 4)), qr.Table({3: 1, 7: 1})])
    assert list(dice.support) == [1, 2, 3, 7]
    assert qr.Mixture([CERTAIN, Unlisted(CERTAIN)]).support is None
    with pytest.raises(qr.errors.InputError, match="cannot fall below"):
        qr.draw(qr.Product(MIXED), CERTAIN, 10, seed=0)
    two = qr.Mixture([qr.from_scipy(stats.norm(x)) for x in (0, 5)])
    with pytest.raises(qr.errors.InputError, match=r"has 0\.25 of its mass"):
        qr.draw(qr.Product(two), qr.from_scipy(stats.expon()), 10, seed=0)


def test_replayed_draws_of_another_proposal_do_not_change_log_prob():
    """An estimate of Z_beta on draws of another q must not become the sampler's own."""
    target = qr.Table({"a": 0.5, "b": 0.5})
    proposal = Unlisted(qr.Table({"a": 0.9, "b": 0.1}))
    others = qr.draw(target, qr.Table({"a": 0.1, "b": 0.9}), 5_000, seed=0)
    sampler = qr.QRS(target, proposal, beta=1.0)
    sampler.replay(others)
    assert np.array_equal(
        sampler.log_prob(["a", "b"]), qr.QRS(target, proposal, beta=1.0).log_prob(["a", "b"])
    )
    assert np.exp(sampler.log_prob(["a", "b"])) == pytest.approx([0.5 / 0.6, 0.1 / 0.6], abs=0.01)
