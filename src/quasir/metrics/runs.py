"""One number from several runs, as the paper's tables give it: mean ± standard deviation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, SupportsFloat

import numpy as np

from quasir.core.arguments import LARGEST, check_count, is_iterable, number, show
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

    def __post_init__(self) -> None:
        number("mean", self.mean)
        if not (isinstance(self.sd, float) and math.isnan(self.sd)):
            number("sd", self.sd)
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
        raise InputError(f"values are {show(values)}, but must be one number for each run.")
    numbers = np.array([_number(i, value) for i, value in enumerate(values)])
    if len(numbers) == 0:
        raise InputError("there are no runs to take a mean of: give one number for each run.")
    wrong = ~(np.abs(numbers) <= LARGEST)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise InputError(
            f"run {i} of {len(numbers)} gave {numbers[i]}, so there is no mean. To leave the run "
            "out would bias the mean: find out why it failed."
        )
    sd = float(numbers.std(ddof=1)) if len(numbers) > 1 else math.nan
    return Runs(float(numbers.mean()), sd, len(numbers))


def _number(i: int, value: Any) -> float:
    """Return the number of a run; an `Estimate` and other numbers with float() have one."""
    wrong = isinstance(value, (str, bytes, bool, np.bool_, np.complexfloating, np.ma.MaskedArray))
    if wrong or not hasattr(value, "__float__"):
        raise InputError(f"run {i} gave {show(value)}, but must give a number.")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"run {i} gave {show(value)}, but must give a number ({error})."
        ) from error
