"""Gibbs with gradients, and the lattice models that come with it."""

import numpy as np
import pytest

import quasir as qr
from quasir.samplers import GibbsWithGradients
from quasir.targets.lattice import RBM, Ising, Potts, UniformStates, grid

TARGET = Ising(grid(3, 3, 0.4), 0.1)


def test_a_step_changes_one_site_at_most():
    chain = GibbsWithGradients(Potts(grid(2, 3, 0.5), 4)).sample(300, seed=0)
    assert chain.items.shape == (300, 6)
    changes = (chain.items[1:] != chain.items[:-1]).sum(axis=1)
    assert set(changes.tolist()) == {0, 1}
    assert chain.distance.startswith("unknown: ")
    assert chain.distinct > 100


def test_informed_moves_are_accepted_more_often():
    strong = Ising(grid(4, 4, 0.6))
    informed = GibbsWithGradients(strong, chains=20, burn_in=50).sample(2000, seed=0)
    blind = GibbsWithGradients(strong, chains=20, burn_in=50, site_first=True).sample(2000, seed=0)
    assert informed.move_rate > 1.5 * blind.move_rate


def test_a_site_of_two_values_may_have_either_gradient():
    field = np.array([0.3, -0.8, 0.1])
    bits = Ising(np.zeros((3, 3)), field)
    # The same law as one-hot rows: value 0 weighs -h, value 1 weighs h.
    hot = Potts(np.zeros((3, 3)), 2, np.stack([-field, field], axis=1))
    a, b = GibbsWithGradients(bits).sample(200, seed=1), GibbsWithGradients(hot).sample(200, seed=1)
    np.testing.assert_array_equal(a.items, b.items)


def test_lattice_models_are_targets_of_other_samplers():
    states = UniformStates(9).support
    assert len(states) == 512
    samples = qr.QRS(TARGET, UniformStates(9), beta=1e4).sample(50, seed=0)
    assert samples.items.shape == (50, 9)
    total = np.exp(UniformStates(9).log_prob(states)).sum()
    assert total == pytest.approx(1)
    assert UniformStates(40).support is None
    few, many = (UniformStates(5, 3).sample(n, np.random.default_rng(0)).items for n in (4, 9))
    np.testing.assert_array_equal(few, many[:4])
    assert set(np.unique(many)) == {0, 1, 2}


def test_chains_start_at_the_draws_of_the_proposal():
    draws = qr.draw(TARGET, UniformStates(9), 40, seed=2)
    samples = GibbsWithGradients(TARGET, reset=1).sample(40, seed=2)
    np.testing.assert_array_equal(samples.items, draws.items)
    assert samples.proposals == 40
    ones = qr.Table({(1,) * 9: 1.0})
    samples = GibbsWithGradients(TARGET, ones, reset=1).sample(3, seed=0)
    assert samples.items.tolist() == [[1] * 9] * 3


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: GibbsWithGradients(lambda x: x), "grad"),
        (lambda: GibbsWithGradients(TARGET, chains=0), "chains"),
        (lambda: GibbsWithGradients(Potts(grid(1, 2), 1)), "of at least 2"),
        (lambda: Ising([[0, 1], [0, 0]]), "symmetric"),
        (lambda: Ising([[1.0]]), "diagonal"),
        (lambda: Potts(grid(1, 2), 3, np.zeros(5)), "field has shape"),
        (lambda: RBM([1.0]), "matrix"),
        (lambda: grid(0, 3), "rows"),
        (lambda: UniformStates(0), "size"),
    ],
)
def test_wrong_settings_are_refused(make, says):
    with pytest.raises(qr.errors.InputError, match=says):
        make()


@pytest.mark.parametrize(
    ("gradient", "says"),
    [
        (np.full((1, 3, 3), np.nan), "with 9 entries not finite"),
        (np.full((1, 3, 3), np.inf), "with 9 entries not finite"),
        (np.full((1, 3, 3), -np.inf), "with 9 entries not finite"),
        (np.zeros((1, 3)), r"where \(1, 3, 3\) is needed"),
    ],
)
def test_a_gradient_that_is_none_is_refused(gradient, says):
    broken = Potts(grid(1, 3), 3)
    broken.grad = lambda states: gradient
    with pytest.raises(qr.errors.ScoreError, match=says):
        GibbsWithGradients(broken).sample(1, seed=0)
