"""Held-out quality with its interval: the mean loss of a token, and the AUC of a similarity.

What is drawn anew is the group (a document, or the questions that pairs connect), because the
texts of one group are alike.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["area", "areas", "mean_loss", "numbered", "shown"]

RESAMPLES = 1000
NORMAL_95 = 1.959964


def mean_loss(sums: np.ndarray, lengths: np.ndarray, groups: Sequence[int]) -> dict[str, float]:
    """Return the mean loss of a token and its 95 % interval, by the delta method over groups."""
    index = np.unique(np.asarray(groups), return_inverse=True)[1]
    total, count = np.bincount(index, sums), np.bincount(index, lengths)
    mean = total.sum() / count.sum()
    residuals = total - mean * count
    n = len(residuals)
    error = np.sqrt(n / (n - 1) * (residuals**2).sum()) / count.sum()
    return {
        "value": float(mean),
        "low": float(mean - NORMAL_95 * error),
        "high": float(mean + NORMAL_95 * error),
    }


def area(scores: np.ndarray, same: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return the AUC: the chance that a same-meaning pair scores above another pair.

    A tie counts one half.
    """
    level = np.unique(scores, return_inverse=True)[1]
    return _area(level, same, np.ones(len(scores)) if weights is None else weights)


def _area(level: np.ndarray, same: np.ndarray, weights: np.ndarray) -> float:
    """Return the AUC of scores that are given by their ranks."""
    yes = np.bincount(level, weights * same)
    no = np.bincount(level, weights * ~same, minlength=len(yes))
    below = np.cumsum(no) - no
    return float((yes * (below + no / 2)).sum() / (yes.sum() * no.sum()))


def areas(
    scores: dict[str, np.ndarray], same: np.ndarray, groups: Sequence[Any], seed: int = 0
) -> dict[str, dict[str, float]]:
    """Return the AUC of each similarity with its 95 % interval, by the bootstrap over groups.

    Each after the first also has `behind`, by how much the first one is above it, with the
    interval of this difference.
    """
    index = np.unique(np.asarray(groups), return_inverse=True)[1]
    rng = np.random.default_rng(seed)
    count = index.max() + 1
    drawn: dict[str, list[float]] = {name: [] for name in scores}
    levels = {name: np.unique(values, return_inverse=True)[1] for name, values in scores.items()}
    for _ in range(RESAMPLES):
        weights = np.bincount(rng.integers(count, size=count), minlength=count)[index]
        for name, level in levels.items():
            drawn[name].append(_area(level, same, weights))
    first = next(iter(scores))
    found = {}
    for name, values in scores.items():
        low, high = np.quantile(drawn[name], [0.025, 0.975])
        found[name] = {"value": area(values, same), "low": float(low), "high": float(high)}
        if name != first:
            low, high = np.quantile(np.subtract(drawn[first], drawn[name]), [0.025, 0.975])
            behind = found[first]["value"] - found[name]["value"]
            found[name] |= {"behind": behind, "behind_low": low, "behind_high": high}
    return {name: {key: float(x) for key, x in facts.items()} for name, facts in found.items()}


def shown(measured: dict[str, float], digits: int = 3) -> str:
    """Return a value with its interval, for a card."""
    value, low, high = (f"{measured[key]:.{digits}f}" for key in ("value", "low", "high"))
    return f"{value} ({low} to {high})"


def numbered(texts: Sequence[str]) -> str:
    """Return texts as a numbered list of JSON strings, for a card."""
    lines = (json.dumps(text, ensure_ascii=False) for text in texts)
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))
