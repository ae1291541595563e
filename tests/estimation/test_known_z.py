"""A Z that is known, and draws that disagree with it."""

import math

import numpy as np
import pytest
from scipy import stats

import quasir as qr
from quasir.certificates.warnings import find_disagreement
from quasir.draws.ceiling import RatioBounds
from quasir.estimation.binned_draws import BinnedDraws


class Own:
    """A user's own target or proposal: nothing is known of its support."""

    density = True

    def __init__(self, distribution, log_z=0.0):
        self.distribution, self.log_z = qr.from_scipy(distribution), log_z

    def sample(self, n, rng):
        return self.distribution.sample(n, rng)

    def log_prob(self, items):
        return self.distribution.log_prob(items)

    def log_score(self, items):
        return self.log_prob(items)


class OwnTable(Own):
    density = False

    def __init__(self, table):
        self.distribution = self.table = table


NORMAL, SHORT = stats.norm(), stats.uniform(-1, 2)


def known_z_warnings(target, proposal, n=100_000):
    certificate = qr.tradeoff(qr.draw(target, proposal, n, seed=0)).at(beta=1.0)
    return [
        warning for warning in certificate.warnings if "Z is known to be" in warning
    ], certificate


@pytest.mark.parametrize(
    ("target", "proposal", "share"),
    [
        (Own(NORMAL), Own(SHORT), 0.3173),
        (qr.Product(Own(NORMAL)), Own(SHORT), 0.3173),
        (Own(stats.expon()), Own(stats.uniform(0, 2)), math.exp(-2)),
    ],
)
def test_a_cut_that_nothing_declares_is_a_warning(target, proposal, share):
    (warning,), certificate = known_z_warnings(target, proposal)
    said = float(warning.split("So at least ")[1].split(" ")[0])
    assert share - 0.02 < said <= share
    assert "q(x) = 0 or" in warning
    assert "too light a tail" in warning
    assert certificate.guarantee.tvd > share  # the guarantee counts what is cut


def test_tables_are_held_to_their_sum():
    class Unlisted(qr.Table):
        support = property(lambda self: None, lambda self, items: None)

        def sample(self, n, rng):
            return OnlyA.sample(n, rng)

    OnlyA = qr.Table({"a": 70.0})
    target = Unlisted({"a": 70, "b": 30})
    (warning,), _ = known_z_warnings(target, OwnTable(OnlyA))
    assert "Z is known to be 100, but the draws give 70" in warning


def test_a_stored_and_streamed_run_says_it_too(tmp_path):
    qr.draw(Own(NORMAL), Own(SHORT), 20_000, seed=0).save(tmp_path / "run")
    for stream in (False, True):
        warnings = qr.tradeoff(tmp_path / "run", stream=stream).warnings
        assert any("Z is known to be 1, but the draws give 0.68" in warning for warning in warnings)


def test_a_wrong_log_z_takes_the_guarantee_away():
    wide = Own(stats.norm(0, 1.2))
    (low,), certificate = known_z_warnings(Own(NORMAL, log_z=-0.1), wide)
    assert "which cannot be" in low
    assert certificate.guarantee.tvd is None
    (high,), certificate = known_z_warnings(Own(NORMAL, log_z=0.1), wide)
    assert "or the Z that the target declares is wrong" in high
    assert known_z_warnings(Own(NORMAL), wide)[0] == []


def test_a_ceiling_and_a_z_that_contradict_each_other():
    spread = BinnedDraws.of_sorted(10_000, np.log(np.full(5_000, 1.5)))
    for log_ceiling, impossible in ((math.log(1.6), True), (math.inf, False)):
        found = find_disagreement(spread, RatioBounds(log_z=0.0, log_ceiling=log_ceiling), "0.75")
        assert found.impossible == impossible
    assert find_disagreement(spread, RatioBounds(log_z=math.log(0.75)), "0.75") is None
    assert find_disagreement(spread, RatioBounds(), "0.75") is None


def test_false_alarms():
    """Ratios of mean exactly 1, light to very heavy: none of 600 runs is called wrong in error.

    What is said of the mass above the level is checked against the truth, not against the alarm:
    a tail that hides its mass may raise one, and must be right.
    """
    rng, alarms = np.random.default_rng(1), 0
    for run in range(600):
        chance = 10.0 ** -rng.uniform(0.1, 5)
        low = rng.uniform(0, 1)
        high = (1 - low * (1 - chance)) / chance  # E[w] = 1
        n = int(10 ** rng.uniform(1, 5))
        hits = rng.binomial(n, chance)
        ratios = np.concatenate([np.full(n - hits, low), np.full(hits, high)])
        log_w = np.sort(np.log(ratios[ratios > 0]))
        found = find_disagreement(BinnedDraws.of_sorted(n, log_w), RatioBounds(log_z=0.0), "")
        if found is None:
            continue
        alarms += 1
        assert not found.impossible, run
        assert hits == 0, run
        said = float(found.text.split("So at least ")[1].split(" ")[0])
        level = float(found.text.split("is above ")[1].split(",")[0])
        assert chance * max(high - level, 0.0) >= said, run
    assert alarms > 20  # the control: hidden mass is seen where Z is known
