"""Pools of draws over spaces that can be enumerated."""

from dataclasses import replace

import numpy as np
from scipy import stats

import quasir as qr

POISSONS = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))
LETTERS = qr.Table({"a": 0.1, "e a": 0.1, "x y x": 0.4, "y": 0.2, "z z": 0.2})
WIDE = qr.Table({"a": 1, "e a": 1, "x y x": 2, "y": 1, "z z": 4})
VOWEL = qr.features.search("[ae]", name="vowel")
LONG = qr.Feature("long", lambda text: float(len(str(text))))


def letters(n, seed=0):
    """Return draws of which an eighth are impossible, with a boolean and a real feature."""
    target = (LETTERS * ~qr.features.search("^y$", name="y") * qr.tilt(VOWEL, 1.2)).watch(LONG)
    return qr.draw(target, WIDE, n, seed=seed)


def poissons(n, seed=0):
    """Return draws of Poisson(10), scored under Poisson(11)."""
    return qr.draw(*POISSONS, n, seed=seed)


def places(share):
    """Return the draws of a share, run by run."""
    return np.arange(share.runs * share.length).reshape(share.runs, share.length)


def part(draws, at):
    """Return a stretch of draws."""
    return draws.take(np.asarray(at))


def numbered(draws):
    """Return draws whose items are their indices."""
    return replace(draws, items=np.arange(len(draws)), features={}, log_base=None)
