"""The guarantee over contexts is false in at most 5 % of runs; wrong ones are found out.

The draws choose the betas and the number of draws of each context, and every round is looked at.
The number of false runs is tested against a binomial with a chance of 5 %, at a false-alarm rate of
1e-6. benchmarks/contexts_guarantee.py is the same, larger.
"""

import math

import numpy as np
import pytest
from benchmarks.contexts_guarantee import Space, looks, rare
from scipy.stats import binom

from quasir.estimation.guarantee import (
    LEVELS,
    NO_EVIDENCE,
    Assumptions,
    Evidence,
    mean_guarantee,
    most_above,
    tvd_evidence,
)

RUNS, CONTEXTS, FIRST, ROUNDS = 30, 12, 300, 3
MOST = int(binom.isf(1e-6, RUNS, 0.05))
"""More false runs than this are no accident."""


def runs(**how):
    rng = np.random.default_rng(7)
    return [list(looks(CONTEXTS, FIRST, ROUNDS, rng, **how)) for _ in range(RUNS)]


def seen_ceiling(space, counts):
    """Return the largest ratio seen: the mistake of taking it for a ceiling."""
    return math.log(space.w[counts > 0].max())


def test_the_guarantee_holds_where_the_estimate_does_not():
    made = runs()
    false = sum(any(look.guarantee < look.true for look in run) for run in made)
    assert false <= MOST
    # The betas follow the estimate, and so the mean of the estimates is no bound: the control.
    assert sum(any(look.estimate < look.true for look in run) for run in made) > MOST


def test_a_ceiling_that_was_only_seen_is_found_out():
    """The control: with the largest ratio seen as the ceiling, rare large ones are missed."""
    kinds = (rare(1e-3, 1000.0),)
    wrong = sum(
        any(look.guarantee < look.true for look in run)
        for run in runs(ceiling=seen_ceiling, kinds=kinds)
    )
    right = sum(any(look.guarantee < look.true for look in run) for run in runs(kinds=kinds))
    assert right <= MOST < wrong


@pytest.mark.parametrize(("contexts", "wealth"), [(1, 20.0), (50, 20.0), (50, 200.0), (1000, 60.0)])
def test_how_many_can_be_above_is_a_quantile(contexts, wealth):
    """Each context has this wealth by luck with chance 1/wealth: the bound covers their number."""
    rng = np.random.default_rng(3)
    most = most_above(np.full(contexts, math.log(wealth)), contexts, math.log(20.0))
    lucky = rng.binomial(contexts, 1 / wealth, size=20_000)
    assert np.mean(lucky > most) <= 0.05
    # A bound of half of that many would be false too often, or be none.
    assert most <= 1 or np.mean(lucky > most // 4) > 0.05


def evidence(log_wealth, most=1.0):
    return [Evidence(row, most) for row in log_wealth]


def test_no_context_is_above_where_that_is_certain():
    sure = evidence(np.full((5, len(LEVELS)), np.inf), 0.0)
    assert mean_guarantee(sure, 5).tvd == 0.0
    assert mean_guarantee([*sure[:4], NO_EVIDENCE], 5).tvd == pytest.approx(1 / 5)
    assert mean_guarantee([NO_EVIDENCE] * 5, 5) is None


def test_unserved_contexts_make_it_no_better():
    wealth = evidence(np.tile(np.linspace(-1.0, 9.0, len(LEVELS)), (6, 1)))
    assert mean_guarantee(wealth, 6).tvd <= mean_guarantee(wealth, 60).tvd


@pytest.mark.parametrize("seed", range(40))
def test_near_the_ceiling_the_mean_is_bounded_for_certain(seed):
    """Above 0.992 M the first level is certain, which does not make TVD 0."""
    rng = np.random.default_rng(seed)
    spaces, found = [], []
    for _ in range(rng.integers(1, 6)):
        size = rng.integers(2, 30)
        space = Space(rng.dirichlet(np.ones(size)), np.exp(rng.normal(0, 2, size)))
        near = rng.choice([0.9925, 0.995, 1 - 1e-6, 1 - 1e-12, 1.0, 1.1])
        log_beta = space.log_ceiling + math.log(near)
        # Draws that never show the large ratios: what is certain must not depend on them.
        counts = np.where(space.w < space.w.max(), rng.multinomial(2000, space.q), 0)
        assumed = Assumptions(log_ceiling=space.log_ceiling)
        found.append(tvd_evidence(space.spread(counts), log_beta, assumed))
        spaces.append((space.tvd(math.exp(log_beta)), 1 - math.sqrt(min(near, 1.0))))
    true, certain = np.mean(spaces, axis=0)
    made = mean_guarantee(found, len(found) + 3).tvd
    assert true - 1e-15 <= made <= certain + 1e-12
    if certain > 0:
        assert made > 0
