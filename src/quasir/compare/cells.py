"""A cell of the table: one quantity of one sampler, over the runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from quasir.metrics import Runs, over_runs

__all__ = ["NONE", "UNKNOWN", "Cell"]

UNKNOWN, NONE = "unknown", "-"


@dataclass(frozen=True)
class Cell:
    """Values of one quantity, one a run.

    Attributes
    ----------
    values : tuple of float
        Empty where the quantity is not known, such as TVD of a chain.
    ses, highs : tuple of float
        For estimates: the standard error that each run claims (NaN where no draw lies above
        beta), and the upper end of its 95 % interval.
    empty : str
        What the table shows where there is no value.

    Examples
    --------
    >>> print(Cell((0.1, 0.3)), Cell((0.1, 0.3)).text(100), Cell((0.25,)), Cell(empty=UNKNOWN))
    0.2 ± 0.14 20 ± 14 0.25 unknown
    >>> print(Cell((0.0, 0.01), (math.nan, 0.002), (0.03, 0.014)))
    ≤ 0.03
    >>> print(Cell((0.0, 0.0), (0.0, 0.0), (0.0, 0.0)))
    0, certain
    """

    values: tuple[float, ...] = ()
    ses: tuple[float, ...] = ()
    highs: tuple[float, ...] = ()
    empty: str = NONE

    @property
    def known(self) -> bool:
        """Whether every run has a value."""
        return bool(self.values) and all(map(math.isfinite, self.values))

    @property
    def unseen(self) -> int:
        """Runs whose estimate is 0 only because no draw lies above beta."""
        return sum(map(math.isnan, self.ses))

    @property
    def certain(self) -> bool:
        """Whether the quantity is 0 in every run, without any uncertainty."""
        return self.known and bool(self.highs) and not any(self.values) and self.high == 0

    @property
    def runs(self) -> Runs:
        """Mean and standard deviation over the runs."""
        return over_runs(self.values)

    @property
    def claimed(self) -> float:
        """The mean of the standard errors; NaN where a run has none."""
        return sum(self.ses) / len(self.ses) if self.ses else math.nan

    @property
    def high(self) -> float:
        """The largest of the upper ends of the intervals."""
        return max(self.highs, default=math.nan)

    def text(self, scale: float = 1.0) -> str:
        """Return what the table shows; a scale of 100 gives per cent."""
        if not self.known:
            return self.empty
        if self.unseen:
            # No silent zero: the largest of the runs' bounds holds for all of them.
            return f"≤ {scale * self.high:.2g}" if math.isfinite(self.high) else UNKNOWN
        if self.certain:
            return "0, certain"
        runs = self.runs
        mean = f"{scale * runs.mean:.4g}"
        # The same number in every run has a spread of 0, up to rounding.
        sd = 0.0 if runs.sd < 1e-12 * abs(runs.mean) else runs.sd
        return mean if math.isnan(sd) else f"{mean} ± {scale * sd:.2g}"

    def __str__(self) -> str:
        return self.text()

    def columns(self, name: str) -> dict[str, Any]:
        """Return mean and sd, and for estimates the claimed se and bound, for CSV and JSON."""
        known = self.known
        filled: dict[str, Any] = {
            name: self.runs.mean if known else None,
            f"{name}_sd": self.runs.sd if known else None,
        }
        if self.ses or self.empty == UNKNOWN:
            filled[f"{name}_se"] = self.claimed if known else None
            filled[f"{name}_high"] = self.high if known else None
            if not known:
                filled[name] = UNKNOWN
        return {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in filled.items()
        }
