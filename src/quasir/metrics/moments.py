"""Means: of each feature over samples, with its uncertainty, and of a number over runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import LARGEST, check_count, is_iterable, number
from quasir.core.formatting import short_repr
from quasir.core.items import as_items
from quasir.core.types import Items
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.estimation.estimate import Z95, Estimate
from quasir.estimation.intervals import wilson_interval
from quasir.features import Feature
from quasir.samplers.results import SampleSet
from quasir.targets.feature import check_feature


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
    column = item_column(items)
    if len(column) == 0:
        raise InputError("there are no samples to take a mean of: give at least one.")
    if isinstance(features, (str, bytes)) or not isinstance(features, (Feature, Iterable)):
        raise InputError(f"features are {short_repr(features)}, but must be a Feature, or several.")
    asked = [features] if isinstance(features, Feature) else list(features)
    for feature in asked:
        check_feature(feature)
    names = [feature.name for feature in asked]
    if len(set(names)) < len(names):
        raise InputError(f"features need different names, but these are {names}.")
    return {feature.name: _mean(feature(column)) for feature in asked}


def _mean(values: NDArray[np.generic]) -> Estimate:
    n, numbers = len(values), values.astype(np.float64)
    mean = float(numbers.mean())
    se = float(numbers.std(ddof=1) / np.sqrt(n)) if n > 1 else math.nan
    if values.dtype == bool:
        low, high = map(float, wilson_interval(np.array(mean), np.array(float(n))))
    else:
        low, high = (mean - Z95 * se, mean + Z95 * se) if n > 1 else (-math.inf, math.inf)
    return Estimate(mean, se, low, high)


@dataclass(frozen=True)
class Runs:
    """The mean and standard deviation of a number over independent runs.

    `sd` is the spread of one run (n - 1 degrees of freedom), not the error of the mean; NaN for
    one run.

    Examples
    --------
    >>> print(Runs(0.4512, 0.0123, 10))
    0.4512 ± 0.012
    """

    mean: float
    sd: float
    runs: int

    def __post_init__(self) -> None:
        number("mean", self.mean)
        number("sd", self.sd, nan=True)
        check_count("runs", self.runs)

    def __str__(self) -> str:
        if math.isnan(self.sd):
            return f"{self.mean:.4g} (one run)"
        return f"{self.mean:.4g} ± {self.sd:.2g}"


def over_runs(values: Iterable[SupportsFloat]) -> Runs:
    """Return the mean and standard deviation of numbers, one for each run.

    Examples
    --------
    >>> over_runs([1.0, 2.0, 3.0])
    Runs(mean=2.0, sd=1.0, runs=3)
    """
    if isinstance(values, (str, bytes, Mapping)) or not is_iterable(values):
        raise InputError(f"values are {short_repr(values)}, but must be one number for each run.")
    # An `Estimate` stands for its value.
    listed = [value.value if isinstance(value, Estimate) else value for value in values]
    numbers = np.array([number(f"the value of run {i}", value) for i, value in enumerate(listed)])
    if len(numbers) == 0:
        raise InputError("there are no runs to take a mean of: give one number for each run.")
    if not (np.abs(numbers) <= LARGEST).all():
        raise InputError(
            f"a run of {len(numbers)} gave {numbers[np.argmax(np.abs(numbers))]}, so there is no "
            "mean. To leave the run out would bias the mean: find out why it failed."
        )
    sd = float(numbers.std(ddof=1)) if len(numbers) > 1 else math.nan
    return Runs(float(numbers.mean()), sd, len(numbers))


def item_column(items: Any) -> Items:
    """Return a column of items: those given, or those of samples or draws."""
    if not isinstance(items, (SampleSet, Draws)):
        return as_items(items)
    if items.items is None:
        raise InputError("these draws have no items: make them with items=, or with qr.draw.")
    return items.items
