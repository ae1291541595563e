"""The moments of samples: the mean of each feature, with its uncertainty."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import is_iterable, show
from quasir.core.types import Items
from quasir.errors import InputError
from quasir.estimation.estimate import Z95, Estimate, wilson_interval
from quasir.features import Feature
from quasir.metrics.text_codes import items_of

__all__ = ["moments"]


def moments(items: Items, features: Feature | Iterable[Feature]) -> dict[str, Estimate]:
    """Return the mean of each feature over i.i.d. samples, with standard error and 95 % interval.

    Parameters
    ----------
    items : items
        I.i.d. samples. Draws of a chain are not; their standard error is that of `ess` draws.
    features : Feature, or several

    Returns
    -------
    dict of Estimate
        Keyed by the feature's name. The standard error is s/sqrt(n), where s has n - 1 degrees of
        freedom; it is NaN for one sample. The interval is Wilson's for a boolean feature, else
        the mean -+ 1.96 standard errors.

    Examples
    --------
    >>> import quasir as qr
    >>> texts = ["She is a chemist.", "He is a chemist.", "She plays.", "She sings."]
    >>> print(moments(texts, qr.features.female)["female"])
    0.75 ± 0.25 [0.3006, 0.9544]
    """
    column = items_of(items)
    if len(column) == 0:
        raise InputError("there are no samples to take a mean of: give at least one.")
    if not isinstance(features, Feature) and (
        isinstance(features, (str, bytes)) or not is_iterable(features)
    ):
        raise InputError(f"features are {show(features)}, but must be a Feature, or several.")
    asked = [features] if isinstance(features, Feature) else list(features)
    for feature in asked:
        if not isinstance(feature, Feature):
            raise InputError(
                f"{show(feature)} is not a feature: make one with qr.Feature(name, function)."
            )
    names = [feature.name for feature in asked]
    if len(set(names)) < len(names):
        raise InputError(f"features need different names, but these are {names}.")
    return {feature.name: _mean(feature(column)) for feature in asked}


def _mean(values: NDArray[np.generic]) -> Estimate:
    n = len(values)
    numbers = values.astype(np.float64)
    mean = float(numbers.mean())
    se = float(numbers.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    if values.dtype == bool:
        low, high = wilson_interval(np.array(mean), np.array(float(n)))
    elif n > 1:
        low, high = np.array(mean - Z95 * se), np.array(mean + Z95 * se)
    else:
        low, high = np.array(-np.inf), np.array(np.inf)
    return Estimate(mean, se, float(low), float(high))
