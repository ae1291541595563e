"""One number from several runs, as the paper's tables give it: mean ± standard deviation."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import SupportsFloat

import numpy as np

from quasir.errors import InputError

__all__ = ["Runs", "over_runs"]


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
    numbers = np.array([float(value) for value in values])
    if len(numbers) == 0:
        raise InputError("there are no runs to take a mean of: give one number for each run.")
    if not np.isfinite(numbers).all():
        i = int(np.argmin(np.isfinite(numbers)))
        raise InputError(
            f"run {i} of {len(numbers)} gave {numbers[i]}, so there is no mean. To leave the run "
            "out would bias the mean: find out why it failed."
        )
    sd = float(numbers.std(ddof=1)) if len(numbers) > 1 else math.nan
    return Runs(float(numbers.mean()), sd, len(numbers))
