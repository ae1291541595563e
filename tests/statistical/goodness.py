"""One goodness-of-fit test for all samplers, with one false-alarm rate."""

import numpy as np
from scipy import stats

FALSE_ALARM = 1e-6


def fits(items, support, probabilities):
    """Tell whether items follow a law, by chi-square over bins pooled to five expected or more.

    An item outside the support, or of probability 0, fails at once.
    """
    place = {item: i for i, item in enumerate(support)}
    codes = np.array([place.get(item, -1) for item in list(items)])
    probabilities = np.asarray(probabilities, dtype=np.float64)
    probabilities = probabilities / probabilities.sum()
    if (codes < 0).any() or (probabilities[codes] == 0).any():
        return False
    order = np.argsort(probabilities)
    expected = len(codes) * probabilities[order]
    observed = np.bincount(codes, minlength=len(support))[order]
    small = np.searchsorted(np.cumsum(expected), 5.0) + 1
    pooled = [0, *range(small, len(expected))] if small < len(expected) else [0]
    expected, observed = np.add.reduceat(expected, pooled), np.add.reduceat(observed, pooled)
    if len(expected) < 2:
        raise ValueError("too few samples to test anything")
    return stats.chisquare(observed, expected).pvalue > FALSE_ALARM
