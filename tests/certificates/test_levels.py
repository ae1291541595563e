"""The beta that meets a constraint, against a plain search; and the advice where no beta does."""

import math
import re

import numpy as np
import pytest

import quasir as qr
from quasir.certificates.choice import _draws_advice, largest_accepting, smallest_meeting
from quasir.certificates.evaluator import SummarisedDraws
from quasir.estimation.intervals import fit_tail
from quasir.estimation.ratios import SortedRatios
from quasir.estimation.summary import Summary

SPACES = {
    "powers": np.log([1.0, 2.0, 4.0, 8.0]),
    "ties": np.log([1.0, 1.0, 1.0, 3.0, 3.0]),
    "impossible": np.array([-np.inf, -np.inf, 0.0, 1.0, 1.5, 2.0]),
    "one": np.zeros(7),
    "normal": np.random.default_rng(0).normal(size=500),
    "wide": np.random.default_rng(1).uniform(-300, 300, 50),
}


def accepted(log_w, log_beta):
    """Return Eq. 2: the mean of min(1, w/beta)."""
    return float(np.exp(np.minimum(log_w - log_beta, 0.0)).mean())


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("shift", [-800.0, 0.0, 800.0])
@pytest.mark.parametrize("share", [1.0, 0.999, 0.75, 0.5, 0.2, 0.01])
def test_the_largest_beta_that_accepts_enough(name, shift, share):
    log_w = SPACES[name]
    rate = share * float((log_w > -np.inf).mean())
    found = largest_accepting(SortedRatios(log_w + shift), rate)
    assert found is not None
    assert accepted(log_w + shift, found) >= rate * (1 - 1e-9)
    assert accepted(log_w + shift, found + 1e-6) < rate * (1 - 1e-9)


@pytest.mark.parametrize("name", SPACES)
def test_no_beta_accepts_what_is_impossible(name):
    log_w = SPACES[name]
    possible = float((log_w > -np.inf).mean())
    if possible < 1:
        assert largest_accepting(SortedRatios(log_w), possible + 1e-6) is None
    assert largest_accepting(SortedRatios(log_w), possible) is not None


@pytest.mark.parametrize("shift", [-800.0, 0.0, 800.0])
@pytest.mark.parametrize("wanted", [0.3, 0.1, 0.03])
def test_the_smallest_beta_that_loses_little(shift, wanted):
    """Of p's mass, 1 - Z_beta/Z lies above beta q: it falls with beta, without a jump."""
    log_w = np.random.default_rng(3).normal(size=3000)
    w = np.exp(log_w)

    def truncated_mass(log_beta):
        return np.array([1 - np.minimum(w, np.exp(b - shift)).sum() / w.sum() for b in log_beta])

    found = smallest_meeting(SortedRatios(log_w + shift), truncated_mass, wanted)
    assert found is not None
    assert truncated_mass([found])[0] <= wanted
    assert truncated_mass([found - 1e-6])[0] > wanted
    assert truncated_mass([found])[0] == pytest.approx(wanted, rel=1e-9)


def test_a_constraint_that_holds_at_every_beta_is_met_at_the_smallest_ratio():
    ratios = SortedRatios(SPACES["normal"])
    found = smallest_meeting(ratios, lambda b: np.zeros(len(b)), 0.5)
    assert found == SPACES["normal"].min()
    assert smallest_meeting(ratios, lambda b: np.ones(len(b)), 0.5) is None


def test_no_beta_is_searched_past_the_tenth_largest_ratio():
    log_w = np.sort(SPACES["normal"])
    ratios = SortedRatios(log_w)
    at_tenth = smallest_meeting(ratios, lambda b: (b < log_w[-10]).astype(float), 0.5)
    assert at_tenth == pytest.approx(log_w[-10], abs=1e-12)
    assert smallest_meeting(ratios, lambda b: (b <= log_w[-10]).astype(float), 0.5) is None


TAIL_DRAWS = np.random.default_rng(4).normal(size=5000)


@pytest.mark.parametrize("shift", [-800.0, -300.0, -5.0, 5.0, 300.0, 800.0])
@pytest.mark.parametrize("constraint", ["tvd", "tvd_bound", "kl"])
def test_the_advice_does_not_depend_on_the_scale_of_p(constraint, shift):
    def advice(by):
        draws = qr.Draws.from_arrays(TAIL_DRAWS + by, np.zeros(5000))
        with pytest.raises(qr.errors.UnreachableError) as error:
            qr.tradeoff(draws).at(**{constraint: 1e-6})
        found = re.search(r"By the tail fitted.*?near \S+e[-+]\d\d", str(error.value))
        assert found is not None
        return found[0]

    assert advice(shift) == advice(0.0)


def test_the_advice_is_what_the_fitted_tail_says():
    tail = fit_tail(SortedRatios(TAIL_DRAWS))
    log_z = float(np.log(np.exp(TAIL_DRAWS).mean()))
    text = _draws_advice("tvd_bound", 1e-4, tail, log_z)
    assert text is not None
    draws, rate = (float(x) for x in re.findall(r"(\d\.\de[-+]\d\d)", text))
    # The least log beta above the largest ratio whose mass is at most the constraint, to 0.01.
    levels = tail.log_max + np.arange(0, 25, 0.01)
    mass = [tail.above(b).mass * math.exp(tail.log_max - log_z) for b in levels]
    level = levels[np.flatnonzero(np.array(mass) <= 1e-4)[0]]
    assert rate == pytest.approx(math.exp(log_z - level), rel=0.06)
    assert draws == pytest.approx(10 / tail.above(level).share, rel=0.06)


def test_the_advice_asks_for_twice_the_draws_at_least():
    tail = fit_tail(SortedRatios(TAIL_DRAWS))
    text = _draws_advice("tvd_bound", 0.9, tail, float(tail.log_max) - 0.1)
    assert text is not None
    (draws, _) = (float(x) for x in re.findall(r"(\d\.\de[-+]\d\d)", text))
    assert draws == pytest.approx(max(2 * 5000, 10 / tail.above(tail.log_max).share), rel=0.06)
    heavy = fit_tail(SortedRatios(2.0 * np.random.default_rng(1).standard_exponential(5000)))
    assert heavy.k >= 1
    assert _draws_advice("tvd_bound", 0.1, heavy, 0.0) is None


@pytest.mark.parametrize("rate", [0.9, 0.5, 0.1, 0.003, 1e-40])
def test_on_binned_ratios_the_level_accepts_enough_and_the_next_does_not(rate):
    log_w = np.random.default_rng(3).normal(size=2000)
    summary = Summary.of(log_w, np.zeros(2000), fineness=3)
    ratios = SummarisedDraws(summary).ratios
    found = largest_accepting(ratios, rate)
    assert accepted(log_w, found) >= rate
    assert accepted(log_w, found + ratios.width) < rate
