"""Held-out quality and its intervals."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "training"))

import judging

# Of 300 intervals of 95 %, fewer hit the truth with probability below 1e-6.
FEWEST_OF_300 = 264


def test_the_area_is_that_of_all_comparisons():
    rng = np.random.default_rng(0)
    scores, same = rng.integers(6, size=60), rng.random(60) < 0.4
    yes, no = scores[same][:, None], scores[~same][None, :]
    assert judging.area(scores, same) == pytest.approx(((yes > no) + (yes == no) / 2).mean())
    repeats = rng.integers(1, 4, size=60)
    expected = judging.area(np.repeat(scores, repeats), np.repeat(same, repeats))
    assert judging.area(scores, same, repeats) == pytest.approx(expected)


def grouped(rng, groups=60, size=5):
    """Return values with a part that a group shares, and the groups."""
    shared = np.repeat(rng.normal(size=groups), size)
    return shared + 0.5 * rng.normal(size=groups * size), np.repeat(np.arange(groups), size)


def hits(interval, truth):
    return interval["low"] <= truth <= interval["high"]


def test_the_interval_of_a_loss_covers_it_and_needs_the_groups():
    covered = alone = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        losses, groups = grouped(rng)
        lengths = rng.integers(1, 20, size=len(losses))
        covered += hits(judging.mean_loss(lengths * (3 + losses), lengths, groups), 3)
        every = np.arange(len(losses))
        alone += hits(judging.mean_loss(lengths * (3 + losses), lengths, every), 3)
    assert covered >= FEWEST_OF_300 > alone


def test_the_interval_of_an_area_covers_it(monkeypatch):
    monkeypatch.setattr(judging, "RESAMPLES", 200)
    covered = differences = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        noise, groups = grouped(rng)
        same = rng.random(len(noise)) < 0.5
        spread = np.sqrt(1.25)
        # The area of two normal distributions a shift of 1.25 standard deviations apart.
        scores = {"a": noise + 1.25 * spread * same, "b": rng.normal(size=len(noise))}
        found = judging.areas(scores, same, groups)
        truth = 0.811624  # Phi(1.25 / sqrt(2))
        covered += hits(found["a"], truth)
        low, high = found["b"]["behind_low"], found["b"]["behind_high"]
        differences += low <= truth - 0.5 <= high
    assert covered >= FEWEST_OF_300
    assert differences >= FEWEST_OF_300
