"""The promise over contexts is false in at most 5 % of runs; wrong ones are found out.

The draws choose the betas and the number of draws of each context, and every round is looked at.
The number of false runs is tested against a binomial with a chance of 5 %, at a false-alarm rate of
1e-6. benchmarks/contexts_promise.py is the same, larger.
"""

import math

import numpy as np
import pytest
from benchmarks.contexts_promise import looks, rare
from scipy.stats import binom

from quasir.estimation.shares import LEVELS, mean_promise, most_above

RUNS, CONTEXTS, FIRST, ROUNDS = 30, 12, 300, 3
MOST = int(binom.isf(1e-6, RUNS, 0.05))
"""More false runs than this are no accident."""


def runs(**how):
    rng = np.random.default_rng(7)
    return [list(looks(CONTEXTS, FIRST, ROUNDS, rng, **how)) for _ in range(RUNS)]


def seen_ceiling(space, counts):
    """Return the largest ratio seen: the mistake of taking it for a ceiling."""
    return math.log(space.w[counts > 0].max())


def test_the_promise_holds_where_the_estimate_does_not():
    made = runs()
    false = sum(any(look.promise < look.true for look in run) for run in made)
    assert false <= MOST
    # The betas follow the estimate, and so the mean of the estimates is no bound: the control.
    assert sum(any(look.estimate < look.true for look in run) for run in made) > MOST


def test_a_ceiling_that_was_only_seen_is_found_out():
    """The control: with the largest ratio seen as the ceiling, rare large ones are missed."""
    kinds = (rare(1e-3, 1000.0),)
    wrong = sum(
        any(look.promise < look.true for look in run)
        for run in runs(ceiling=seen_ceiling, kinds=kinds)
    )
    right = sum(any(look.promise < look.true for look in run) for run in runs(kinds=kinds))
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


def test_no_context_is_above_where_that_is_certain():
    sure = mean_promise(np.full((5, len(LEVELS)), np.inf), 5)
    assert sure.tvd == 0.0
    wealth = np.full((5, len(LEVELS)), np.inf)
    wealth[4] = -np.inf
    unsure = mean_promise(wealth, 5)
    assert unsure.tvd == pytest.approx(1 / 5)
    assert mean_promise(np.full((5, len(LEVELS)), -np.inf), 5) is None


def test_unserved_contexts_make_it_no_better():
    wealth = np.tile(np.linspace(-1.0, 9.0, len(LEVELS)), (6, 1))
    assert mean_promise(wealth, 6).tvd <= mean_promise(wealth, 60).tvd
