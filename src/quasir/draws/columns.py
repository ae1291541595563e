"""Columns of draws that a user gives: their lengths, names and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quasir.core.arguments import LARGEST, reals
from quasir.core.types import Array
from quasir.errors import InputError

__all__ = ["as_features", "base_column", "column_names", "feature_column", "length_of"]

LARGEST_BASE = 1e100
"""Largest size of log a(x): its square is then far from overflow."""


def as_features(features: Any) -> Mapping[str, ArrayLike]:
    """Return the columns of features by name; none for None."""
    if features is None:
        return {}
    if not isinstance(features, Mapping) or not all(isinstance(name, str) for name in features):
        raise InputError(
            f"features are a {type(features).__name__}, but must be a dictionary from a feature's "
            "name to its column."
        )
    return features


def feature_column(name: str, column: ArrayLike) -> NDArray[Any]:
    """Return the values of a feature as booleans or finite float64."""
    values = reals(f"the values of feature {name!r}", column, ndim=1)
    if values.dtype == bool:
        return values
    wrong = ~(np.abs(values) <= LARGEST)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise InputError(
            f"feature {name!r} is {values[i]} at draw {i}; it must be finite, and at most "
            f"{LARGEST:g} in size."
        )
    return values


def length_of(column: Any) -> int:
    """Return the length of a column; 1 for a number."""
    try:
        return len(column)
    except TypeError:
        return int(np.size(column))


def base_column(log_base: ArrayLike, log_p: Array) -> Array:
    """Return log a(x), which must be finite wherever P(x) > 0."""
    base: Array = np.atleast_1d(reals("log_base", log_base)).astype(np.float64)
    if base.shape != log_p.shape:
        raise InputError(f"log_base has shape {base.shape}, but must have {log_p.shape}.")
    possible = np.flatnonzero(log_p > -np.inf)
    bad = possible[~(np.abs(base[possible]) <= LARGEST_BASE)]
    if len(bad):
        raise InputError(
            f"log_base is {base[bad[0]]} at draw {bad[0]}, where P(x) > 0 "
            f"({len(bad)} such draws): KL(p_beta, a) is not defined there. "
            "A target built on a base has P(x) = 0 wherever the base has."
        )
    return base


def column_names(draws: Any) -> str:
    """Return which columns some draws have, for a message."""
    return ", ".join(["items"] * (draws.items is not None) + sorted(draws.features)) or "no columns"
