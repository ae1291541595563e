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
    with pytest.raises(qr.errors.BudgetExceeded) as error:
        sampler.sample(1000, seed=0, max_proposals=5000)
    found = error.value.samples
    assert found.proposals == 5000
    draws = qr.draw(TARGET, PROPOSAL, 5000, seed=0)
    np.testing.assert_array_equal(found.items, draws.items[draws.accepted(100)])
    assert f"gave {len(found)} of 1,000" in str(error.value)
    assert len(sampler.sample(len(found), seed=0, max_proposals=5000)) == len(found)
    with pytest.raises(qr.errors.BudgetExceeded, match="Nothing was accepted"):
        qr.QRS(RARE_TARGET, RARE, beta=1).sample(1, seed=0, max_proposals=10)


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


def test_a_hopeless_search_is_told_of():
    with (
        pytest.warns(qr.errors.QuasirWarning, match="no end in sight"),
        pytest.raises(qr.errors.BudgetExceeded),
    ):
        qr.QRS(RARE_TARGET, RARE, beta=1e9).sample(10, seed=0, max_proposals=300_000)


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


def test_incremental_goes_on_where_the_rate_is_out_of_reach():
    target, proposal = qr.Table({"a": 1.0}), qr.Table({"a": 0.2, "b": 0.8})
    sampler = qr.IncrementalQRS(target, proposal, 0.5)
    draws = qr.draw(target, proposal, 4096, seed=1)
    stored, live = sampler.replay(draws, 300), sampler.sample(300, seed=1)
    assert stored.proposals == live.proposals > 600
    assert stored.log_beta == -math.inf
    assert "out of reach" in stored.warnings[0]
    assert len(sampler.replay(draws)) == (draws.log_p > -np.inf).sum()
    with pytest.raises(qr.errors.BudgetExceeded):
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
    assert any("above every ratio seen" in warning for warning in samples.warnings)


def test_incremental_where_the_rate_is_out_of_reach():
    half = qr.Table({"a": 1.0, "b": 2.0})
    proposal = qr.Table({"a": 0.25, "b": 0.25, "c": 0.5})
    samples = qr.IncrementalQRS(half, proposal, acceptance_rate=0.9).sample(3000, seed=0)
    assert len(samples) == 3000
    assert samples.log_beta == -math.inf
    assert samples.acceptance_rate == pytest.approx(0.5, abs=0.05)
    assert any("out of reach" in warning for warning in samples.warnings)
    # The limit beta -> 0 is q filtered to the support: half a, half b, whatever P says.
    assert np.mean([item == "a" for item in samples.items]) == pytest.approx(0.5, abs=0.05)
    np.testing.assert_allclose(samples.log_p_beta, math.log(0.5), atol=0.1)


def test_incremental_at_rate_one():
    samples = qr.IncrementalQRS(TARGET, PROPOSAL, acceptance_rate=1).sample(2000, seed=0)
    assert samples.proposals == 2000
    np.testing.assert_array_equal(samples.items, qr.draw(TARGET, PROPOSAL, 2000, seed=0).items)


@pytest.mark.parametrize("rate", [0, -0.1, 1.5, math.nan, "a", True])
def test_a_wrong_rate_is_refused(rate):
    with pytest.raises(qr.errors.InputError, match="acceptance_rate"):
        qr.IncrementalQRS(TARGET, PROPOSAL, acceptance_rate=rate)


@pytest.mark.parametrize("beta", [0, -1, math.inf, math.nan, "2", None, True])
def test_a_wrong_beta_is_refused(beta):
    with pytest.raises(qr.errors.InputError, match="beta"):
        qr.QRS(TARGET, PROPOSAL, beta=beta)


def test_progress_and_repr(capsys):
    samples = qr.QRS(TARGET, PROPOSAL, beta=2).sample(1000, seed=0, progress=True)
    assert "1,000/1,000 accepted" in capsys.readouterr().err
    assert "1,000 accepted of" in repr(samples)
    coin = qr.Table({"heads": 1, "tails": 1})
    pair = "<Table of 2 items>, <Table of 2 items>"
    assert repr(qr.QRS(coin, coin, beta=2)) == f"QRS({pair}) at beta = 2"
    assert repr(qr.IMH(coin, coin, burn_in=10)) == f"IMH({pair}, burn_in=10, thin=1)"


class Unlisted:
    """A proposal whose support is not listed."""

    def __init__(self, proposal):
        self.proposal = proposal

    def sample(self, n, rng):
        return self.proposal.sample(n, rng)

    def log_prob(self, items):
        return self.proposal.log_prob(items)


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
