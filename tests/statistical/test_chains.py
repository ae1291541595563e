"""The laws of the samplers that only tend to p, and what is wrong is seen to fail."""

import numpy as np
import pytest
from scipy import stats

import quasir as qr
from quasir.samplers import (
    IMH,
    RWMH,
    SIR,
    EmpiricalSupremum,
    GibbsWithGradients,
    RejectionChain,
    RejectionControl,
)
from quasir.targets.lattice import RBM, Potts, UniformStates, grid
from tests.sequences import TableEditor, every_sequence, matrix_of, table_of, weights_of
from tests.statistical.goodness import FALSE_ALARM, fits

SUPPORT = [f"x{i}" for i in range(10)]
Q = np.random.default_rng(3).dirichlet(np.ones(10))
P = np.where(np.arange(10) < 2, 0.0, 7 * np.random.default_rng(4).dirichlet(np.ones(10)))
W = P / Q
TARGET = qr.Table(dict(zip(SUPPORT, P, strict=True)))
PROPOSAL = qr.Table(dict(zip(SUPPORT, Q, strict=True)))
EVERYWHERE = qr.Table(dict(zip(SUPPORT, P + 0.1, strict=True)))


def independent_kernel(q, w):
    """Return the matrix of IMH with proposal law q and weights w, by its definition."""
    with np.errstate(divide="ignore", invalid="ignore"):
        move = np.where(w[:, None] > 0, np.minimum(1, w[None] / w[:, None]), 1.0)
    matrix = q[None] * move
    matrix[np.diag_indices(len(q))] = 0
    return matrix + np.diag(1 - matrix.sum(axis=1))


def law_after(k, q, w):
    """Return the law of the k-th state of a chain that starts at the first possible draw."""
    start = np.where(w > 0, q, 0)
    return (start / start.sum()) @ np.linalg.matrix_power(independent_kernel(q, w), k - 1)


@pytest.mark.parametrize("k", [1, 2, 5, 40])
def test_imh_reset_follows_the_law_of_k_states(k):
    samples = IMH(TARGET, PROPOSAL, reset=k).sample(20_000, seed=k)
    assert fits(samples.items, SUPPORT, law_after(k, Q, W))
    assert (not fits(samples.items, SUPPORT, P)) == (k < 40)
    if k < 40:
        assert not fits(samples.items, SUPPORT, law_after(k + 2, Q, W))


def test_imh_reset_gives_independent_samples():
    samples = IMH(TARGET, PROPOSAL, reset=3).sample(20_000, seed=9)
    law = law_after(3, Q, W)
    pairs = [a + b for a, b in zip(samples.items[::2], samples.items[1::2], strict=True)]
    names = [a + b for a in SUPPORT for b in SUPPORT]
    assert fits(pairs, names, np.outer(law, law).ravel())
    chain = IMH(TARGET, PROPOSAL).sample(20_000, seed=9)
    pairs = [a + b for a, b in zip(chain.items[::2], chain.items[1::2], strict=True)]
    assert not fits(pairs, names, np.outer(P, P).ravel())


def test_imh_with_the_wrong_ratio_fails():
    """Accepting by P(x')/P(x), as if the proposal were symmetric."""
    draws = qr.draw(TARGET, PROPOSAL, 200_000, seed=1)
    wrong = qr.Draws.from_arrays(draws.log_p, np.zeros(200_000), items=draws.items, seed=1)
    chain = IMH(TARGET, PROPOSAL, thin=20).replay(wrong)
    assert not fits(chain.items, SUPPORT, P)


@pytest.mark.parametrize("share", [0.1, 0.5, 2.0])
def test_rejection_chain_follows_p_where_its_candidates_do_not(share):
    beta = share * W.max()
    chain = RejectionChain(TARGET, PROPOSAL, beta=beta, thin=15).sample(10_000, seed=2)
    assert fits(chain.items, SUPPORT, P)
    candidates = qr.QRS(TARGET, PROPOSAL, beta=beta).sample(10_000, seed=2)
    assert fits(candidates.items, SUPPORT, P) == (share > 1)


@pytest.mark.parametrize("k", [2, 4])
def test_rejection_chain_reset_follows_the_law_of_k_states(k):
    beta = 0.1 * W.max()
    p_beta = np.minimum(P, beta * Q) / np.minimum(P, beta * Q).sum()
    law = law_after(k, p_beta, np.where(W > 0, np.maximum(W, beta), 0.0))
    samples = RejectionChain(TARGET, PROPOSAL, beta=beta, reset=k).sample(20_000, seed=3)
    assert fits(samples.items, SUPPORT, law)
    assert not fits(samples.items, SUPPORT, p_beta)
    assert not fits(samples.items, SUPPORT, P)


def test_sir_follows_the_law_of_its_pool_size():
    """Two draws a pool: few enough to sum over all pools."""
    w = (P + 0.1) / Q
    law = np.zeros(10)
    for a in range(10):
        for b in range(10):
            law[a] += Q[a] * Q[b] * w[a] / (w[a] + w[b])
            law[b] += Q[a] * Q[b] * w[b] / (w[a] + w[b])
    sampler = SIR(EVERYWHERE, PROPOSAL, pool=2)
    items = [sampler.sample(1, seed=s).items[0] for s in range(8_000)]
    assert fits(items, SUPPORT, law)
    assert not fits(items, SUPPORT, Q)
    assert not fits(items, SUPPORT, P + 0.1)


def test_sir_tends_to_p():
    samples = SIR(TARGET, PROPOSAL, pool=300_000).sample(5_000, seed=0)
    assert fits(samples.items, SUPPORT, P)
    draws = qr.draw(TARGET, PROPOSAL, 300_000, seed=0)
    unweighted = draws.take(np.flatnonzero(draws.log_p > -np.inf)[:5_000])
    assert not fits(unweighted.items, SUPPORT, P)


def test_the_empirical_supremum_follows_q_at_first_and_p_at_last():
    sampler = EmpiricalSupremum(TARGET, PROPOSAL)
    late = sampler.sample(22_000, seed=0)
    assert fits(late.items.take(np.arange(2_000, 22_000)), SUPPORT, P)
    first = [sampler.sample(1, seed=s).items[0] for s in range(4_000)]
    assert fits(first, SUPPORT, np.where(P > 0, Q, 0))
    assert not fits(first, SUPPORT, P)


def test_rejection_control_covers_the_mean_under_p():
    """At the nominal rate; without the weights it does not."""
    value = np.arange(10.0) ** 2
    exact = float(value @ P / P.sum())
    column = dict(zip(SUPPORT, value, strict=True))
    sampler = RejectionControl(TARGET, PROPOSAL, beta=0.1 * W.max())
    covered, plain, runs = 0, 0, 500
    for seed in range(runs):
        samples = sampler.sample(400, seed=seed)
        values = np.array([column[item] for item in samples.items])
        estimate = samples.mean(values)
        covered += estimate.low <= exact <= estimate.high
        half = 1.96 * values.std() / 20
        plain += abs(values.mean() - exact) <= half
    assert stats.binomtest(covered, runs, 0.95).pvalue > FALSE_ALARM
    assert stats.binomtest(plain, runs, 0.95).pvalue < FALSE_ALARM


SEQUENCES = every_sequence(2, 0, 3)
WEIGHTS = weights_of(SEQUENCES, seed=2) + 0.05
STARTS = np.random.default_rng(1).dirichlet(np.ones(len(SEQUENCES)))


def random_walk(**settings):
    return RWMH(
        table_of(SEQUENCES, WEIGHTS),
        table_of(SEQUENCES, STARTS),
        TableEditor(2, holes=False),
        max_tokens=3,
        boost={1: 0.2},
        **settings,
    )


@pytest.mark.parametrize("k", [1, 2, 6])
def test_rwmh_reset_follows_the_law_of_k_states(k):
    sampler = random_walk(reset=k)
    matrix = matrix_of(sampler, SEQUENCES, WEIGHTS)
    samples = sampler.sample(8_000, seed=k)
    assert samples.proposals == 8_000 * k
    assert fits(samples.items, SEQUENCES, STARTS @ np.linalg.matrix_power(matrix, k - 1))
    assert not fits(samples.items, SEQUENCES, STARTS @ np.linalg.matrix_power(matrix, k + 3))
    assert not fits(samples.items, SEQUENCES, WEIGHTS)


def test_rwmh_follows_p_in_the_long_run():
    chain = random_walk(burn_in=60, thin=20, chains=250).sample(5_000, seed=1)
    assert fits(chain.items, SEQUENCES, WEIGHTS)


def test_rwmh_with_the_wrong_ratio_fails(monkeypatch):
    """Taking insertions and deletions to be as probable as their reverse."""
    monkeypatch.setattr("quasir.samplers.rwmh.log_directions", lambda *given: (0.0, 0.0))
    chain = random_walk(burn_in=60, thin=20, chains=250).sample(5_000, seed=1)
    assert not fits(chain.items, SEQUENCES, WEIGHTS)


MACHINE = RBM(2 * np.random.default_rng(5).normal(size=(4, 3)), 0.5, -1.0)
COLOURS = Potts(grid(1, 3, 0.8), 3, np.random.default_rng(6).normal(size=(3, 3)))


@pytest.mark.parametrize("site_first", [False, True])
@pytest.mark.parametrize("target", [MACHINE, COLOURS], ids=["RBM", "Potts"])
def test_gibbs_follows_p_in_the_long_run(target, site_first):
    sampler = GibbsWithGradients(target, site_first=site_first, burn_in=60, thin=20, chains=250)
    chain = sampler.sample(5_000, seed=1)
    states = UniformStates(target.size, target.categories).support
    names = [tuple(x) for x in states.tolist()]
    drawn = [tuple(x) for x in chain.items.tolist()]
    assert fits(drawn, names, np.exp(target.log_score(states)))
    assert not fits(drawn, names, np.ones(len(states)))


def test_gibbs_with_the_wrong_ratio_fails(monkeypatch):
    """Accepting by P(x')/P(x) alone."""

    def symmetric(log_p_from, log_p_to, forward, backward):
        return np.minimum(0.0, log_p_to - log_p_from)

    monkeypatch.setattr("quasir.samplers.local_chains.log_metropolis", symmetric)
    chain = GibbsWithGradients(MACHINE, burn_in=60, thin=20, chains=250).sample(5_000, seed=1)
    states = UniformStates(4, 2).support
    names = [tuple(x) for x in states.tolist()]
    drawn = [tuple(x) for x in chain.items.tolist()]
    assert not fits(drawn, names, np.exp(MACHINE.log_score(states)))
