"""Transition matrices, built from the functions that the samplers use: p is stationary."""

import numpy as np
import pytest

from quasir.samplers import RWMH, GibbsWithGradients
from quasir.samplers.gibbs_with_gradients import log_moves, log_values
from quasir.samplers.local_chains import log_metropolis
from quasir.samplers.qrs import log_control_weight
from quasir.samplers.rwmh import Limits, log_directions
from quasir.samplers.sir import resampling_probs
from quasir.targets.lattice import RBM, Ising, Potts, UniformStates, grid
from tests.sequences import (
    TableEditor,
    every_sequence,
    matrix_of,
    table_of,
    weights_of,
)

TOLERANCE = 1e-10


def log_move(log_w_from, log_w_to):
    """Return log min(1, w(x')/w(x)): line 4 of Algorithm 3."""
    return np.minimum(0.0, log_w_to - log_w_from)


def completed(moves):
    """Return the matrix whose diagonal is what no move takes."""
    matrix = np.array(moves)
    matrix[np.diag_indices(len(matrix))] += 1 - matrix.sum(axis=1)
    return matrix


def drift(matrix, weights):
    """Return how far one step takes p."""
    p = np.asarray(weights) / np.sum(weights)
    assert matrix.min() >= -1e-12
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-12)
    return float(np.abs(p @ matrix - p).max())


def space(seed, size=9):
    """Return q and unnormalised P on a space of which P is 0 on one item."""
    rng = np.random.default_rng(seed)
    q, weights = rng.dirichlet(np.ones(size)), 40 * rng.dirichlet(0.5 * np.ones(size))
    weights[2] = 0
    return q, weights


def independent(law, log_w):
    """Return the matrix of the chain that proposes from `law` and moves by `log_move`."""
    possible = np.flatnonzero(log_w > -np.inf)
    moves = np.zeros((len(law), len(law)))
    for x in possible:
        moves[x] = law * np.exp(log_move(log_w[x], log_w))
        moves[x, x] = 0
    return completed(moves)


@pytest.mark.parametrize("seed", range(5))
def test_imh_keeps_p(seed):
    q, weights = space(seed)
    with np.errstate(divide="ignore"):
        log_w = np.log(weights) - np.log(q)
    assert drift(independent(q, log_w), weights) < TOLERANCE


def test_imh_with_a_wrong_ratio_does_not():
    q, weights = space(0)
    with np.errstate(divide="ignore"):
        assert drift(independent(q, np.log(weights)), weights) > 1e-3
        assert drift(independent(q, np.log(q) - np.log(weights + 1e-300)), weights) > 1e-3


@pytest.mark.parametrize("share", [1e-3, 0.05, 0.5, 1.5])
@pytest.mark.parametrize("seed", range(3))
def test_rejection_chains_keep_p_and_have_tierneys_three_cases(seed, share):
    q, weights = space(seed)
    w = weights / q
    beta = share * w.max()
    p_beta = np.minimum(weights, beta * q)
    p_beta /= p_beta.sum()
    with np.errstate(divide="ignore"):
        log_w = np.where(w > 0, np.maximum(np.log(w), np.log(beta)), -np.inf)
    assert drift(independent(p_beta, log_w), weights) < TOLERANCE
    if 0.001 < share < 1:  # below every ratio it is IMH from q, and above every one RS
        with np.errstate(divide="ignore"):
            assert drift(independent(p_beta, np.log(w)), weights) > 1e-4
    for x in np.flatnonzero(w > 0):
        for y in np.flatnonzero(w > 0):
            outside = w[y] > beta
            tierney = 1.0
            if w[x] > beta:
                tierney = min(1.0, w[y] / w[x]) if outside else beta / w[x]
            assert np.exp(log_move(log_w[x], log_w[y])) == pytest.approx(tierney, rel=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.6], ids=["IMH", "beta low", "beta high"])
@pytest.mark.parametrize("seed", range(4))
def test_the_bound_of_the_footnote(seed, share):
    """(1 - 1/M)^k bounds the TVD after k states, start included, for rejection chains as well."""
    q, weights = space(seed)
    p = weights / weights.sum()
    bound = float((p / q).max())
    beta = share * (weights / q).max()
    law = np.minimum(weights, beta * q) if share else np.where(p > 0, q, 0)
    law = law / law.sum()
    with np.errstate(divide="ignore"):
        log_w = np.log(weights) - np.log(q)
    log_w[p > 0] = np.maximum(log_w[p > 0], np.log(beta) if share else -np.inf)
    matrix = independent(law if share else q, log_w)
    for k in range(1, 60):
        assert np.abs(law - p).sum() / 2 <= (1 - 1 / bound) ** k + 1e-12
        law = law @ matrix


@pytest.mark.parametrize("seed", range(4))
def test_the_factor_2_of_the_footnote_belongs_to_the_l1_distance(seed):
    """From the state of the largest ratio, the worst to be in, the bound is all but reached."""
    q, weights = space(seed)
    p = weights / weights.sum()
    bound = float((p / q).max())
    with np.errstate(divide="ignore"):
        matrix = independent(q, np.log(weights) - np.log(q))
    worst = int(np.argmax(p / q))
    l1 = np.abs(np.linalg.matrix_power(matrix, 20)[worst] - p).sum()
    assert l1 == pytest.approx(2 * (1 - p[worst]) * (1 - 1 / bound) ** 20, rel=1e-9)
    assert l1 <= 2 * (1 - 1 / bound) ** 20
    assert (l1 > (1 - 1 / bound) ** 20) == (p[worst] < 0.5)


@pytest.mark.parametrize("seed", range(3))
def test_rejection_control_weights_lead_from_p_beta_to_p(seed):
    q, weights = space(seed)
    beta = 0.1 * (weights / q).max()
    p_beta = np.minimum(weights, beta * q)
    with np.errstate(divide="ignore"):
        weighted = p_beta * np.exp(log_control_weight(np.log(weights) - np.log(q), np.log(beta)))
    np.testing.assert_allclose(weighted, weights, rtol=1e-12)
    assert np.abs(p_beta / p_beta.sum() - weights / weights.sum()).max() > 1e-3


def test_resampling_by_weight_is_p_on_a_pool_in_proportion_to_q():
    counts, weights = np.array([1, 2, 5, 2]), np.array([3.0, 0.0, 1.0, 4.0])
    items = np.repeat(np.arange(4), counts)
    with np.errstate(divide="ignore"):
        law = resampling_probs(np.log(weights[items]) - np.log(counts[items] / 10))
    np.testing.assert_allclose(np.bincount(items, law), weights / weights.sum(), rtol=1e-12)


LENGTHS = [(0, 3), (1, 3), (2, 2), (0, 1), (3, 3)]
BOOSTS = [None, {1: 0.3}, {"zero": 0.05, "two": 0.4}]


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("boost", BOOSTS, ids=str)
def test_rwmh_keeps_p_over_sequences_of_any_length(lengths, boost):
    sampler, sequences, weights = edited(lengths, boost)
    assert drift(matrix_of(sampler, sequences, weights), weights) < TOLERANCE


def edited(lengths, boost):
    sequences = every_sequence(3, *lengths)
    weights = weights_of(sequences, seed=len(sequences))
    sampler = RWMH(
        table_of(sequences, weights),
        table_of(sequences, np.ones(len(sequences))),
        TableEditor(),
        min_tokens=lengths[0],
        max_tokens=lengths[1],
        boost=boost,
    )
    return sampler, sequences, weights


def without_choice(tokens, edit, token, row, limits):
    """Leave the operation and the position out of the ratio."""
    forward, backward = log_directions(tokens, edit, token, row, limits)
    length = len(edit.applied(tokens, token))
    return (
        forward - edit.log_prob(len(tokens), limits),
        backward - edit.reverse.log_prob(length, limits),
    )


def without_limits(tokens, edit, token, row, limits):
    """Take three operations to be legal at every length."""
    return log_directions(tokens, edit, token, row, Limits(0, 99))


def without_token(tokens, edit, token, row, limits):
    """Leave the probability of the token that a deletion would have to put back out."""
    forward, backward = log_directions(tokens, edit, token, row, limits)
    if edit.operation == "delete":
        backward = edit.reverse.log_prob(len(tokens) - 1, limits)
    return forward, backward


def symmetric(tokens, edit, token, row, limits):
    """Take both directions to be alike."""
    return 0.0, 0.0


@pytest.mark.parametrize("wrong", [without_choice, without_limits, without_token, symmetric])
def test_rwmh_with_a_wrong_ratio_does_not(wrong):
    sampler, sequences, weights = edited((0, 3), {1: 0.3})
    assert drift(matrix_of(sampler, sequences, weights, wrong), weights) > 1e-3


def test_rwmh_with_a_boost_left_out_of_the_ratio_does_not():
    sampler, sequences, weights = edited((0, 3), {1: 0.3})
    plain, _, _ = edited((0, 3), None)

    def unboosted(tokens, edit, token, row, limits):
        bare = plain.token_probs([edit.masked(tokens)], np.array([edit.position]))[0]
        return log_directions(tokens, edit, token, np.log(bare + 1e-300), limits)

    assert drift(matrix_of(sampler, sequences, weights, unboosted), weights) > 1e-3


def lattices():
    rng = np.random.default_rng(7)
    return {
        "Ising": Ising(grid(2, 2, 0.6), rng.normal(size=4) / 2),
        "Potts": Potts(grid(1, 3, 0.8), 3, rng.normal(size=(3, 3))),
        "Potts of two": Potts(grid(2, 2, 0.8), 2, rng.normal(size=(4, 2))),
        "RBM": RBM(2 * rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=3)),
    }


def informed(sampler, states, log_p, log_back=None):
    """Return the matrix of Gibbs with gradients over all states of a target."""
    size, k = sampler.target.size, sampler.target.categories
    place = {tuple(x): i for i, x in enumerate(states.tolist())}
    gradient = sampler._gradient(states)
    if sampler.site_first:
        moves = np.stack(
            [log_values(states[:, i], gradient[:, i]) for i in range(size)], axis=1
        ) - np.log(size)
    else:
        moves = log_moves(states, gradient)
    np.testing.assert_allclose(np.exp(moves).sum(axis=(1, 2)), 1, atol=1e-12)
    matrix = np.zeros((len(states), len(states)))
    for x, state in enumerate(states):
        for i in range(size):
            for value in range(k):
                if value == state[i]:
                    assert moves[x, i, value] == -np.inf
                    continue
                other = state.copy()
                other[i] = value
                y = place[tuple(other.tolist())]
                back = moves[y, i, state[i]] if log_back is None else log_back(moves, x, y, i)
                accept = log_metropolis(log_p[x], log_p[y], moves[x, i, value], back)
                matrix[x, y] += np.exp(moves[x, i, value] + accept)
    return completed(matrix)


@pytest.mark.parametrize("site_first", [False, True])
@pytest.mark.parametrize("name", lattices())
def test_gibbs_with_gradients_keeps_p(name, site_first):
    target = lattices()[name]
    states = UniformStates(target.size, target.categories).support
    log_p = target.log_score(states)
    sampler = GibbsWithGradients(target, site_first=site_first)
    assert drift(informed(sampler, states, log_p), np.exp(log_p)) < TOLERANCE

    def no_way_back(moves, x, y, i):
        return 0.0

    wrong = informed(sampler, states, log_p, no_way_back)
    assert drift(wrong, np.exp(log_p)) > 1e-3


@pytest.mark.parametrize("name", lattices())
def test_gibbs_keeps_p_even_by_a_wrong_gradient(name):
    """The gradient steers the proposal, and the ratio makes up for where it leads astray."""
    target = lattices()[name]
    states = UniformStates(target.size, target.categories).support
    log_p = target.log_score(states)
    right = target.grad
    target.grad = lambda states: -1.3 * right(states)
    assert drift(informed(GibbsWithGradients(target), states, log_p), np.exp(log_p)) < TOLERANCE


@pytest.mark.parametrize("name", lattices())
def test_gradients_are_those_of_log_p(name):
    """By differences, the score being a function of real numbers as well."""
    target = lattices()[name]
    state = np.ones(target.size, dtype=np.int64)
    if name.startswith("Potts"):
        one_hot = np.eye(target.categories)[state]

        def value(rows):
            return (rows * (target.coupling @ rows / 2 + target.field)).sum()
    else:
        one_hot = state.astype(float)

        def value(row):
            if name == "RBM":
                inputs = target.hidden + row @ target.weights
                return row @ target.visible + np.logaddexp(0.0, inputs).sum()
            spins = 2.0 * row - 1.0
            return spins @ target.coupling @ spins / 2 + spins @ target.field

    assert value(one_hot) == pytest.approx(target.log_score(state[None])[0])
    gradient, step = target.grad(state[None])[0], 1e-6
    for at in np.ndindex(one_hot.shape):
        up, down = one_hot.copy(), one_hot.copy()
        up[at] += step
        down[at] -= step
        assert gradient[at] == pytest.approx((value(up) - value(down)) / (2 * step), abs=1e-6)


@pytest.mark.parametrize("site_first", [False, True])
def test_a_step_of_gibbs_is_a_move_of_the_matrix(site_first):
    target = lattices()["RBM"]
    states = UniformStates(4, 2).support
    log_p, sampler = target.log_score(states), GibbsWithGradients(target, site_first=site_first)
    gradient = sampler._gradient(states)
    place = {tuple(x): i for i, x in enumerate(states.tolist())}
    for x, state in enumerate(states):
        moves = log_moves(states[[x]], gradient[[x]])[0]
        below = np.concatenate([[0.0], np.cumsum(np.exp(moves))])
        for i in range(4):
            value = 1 - state[i]
            other = state.copy()
            other[i] = value
            y = place[tuple(other)]
            if site_first:
                forward = backward = 0.0
                u = [(i + 0.5) / 4, 0.5]
            else:
                forward = moves[i, value]
                backward = log_moves(states[[y]], gradient[[y]])[0, i, state[i]]
                at = 2 * i + value
                u = [(below[at] + below[at + 1]) / 2, 0.0]
            accept = np.exp(log_metropolis(log_p[x], log_p[y], forward, backward))
            for u_accept in (accept * (1 - 1e-9), accept * (1 + 1e-9)):
                if u_accept >= 1:
                    continue
                kept, log_new, moved = sampler.step(
                    states[[x]], log_p[[x]], np.array([[*u, 1 - u_accept]])
                )
                assert moved[0] == (u_accept < accept)
                np.testing.assert_array_equal(kept[0], other if moved[0] else state)
                assert log_new[0] == pytest.approx(log_p[y if moved[0] else x], rel=1e-12)
