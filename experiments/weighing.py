"""A proposal judged on draws that stand for p, by importance weights: it needs no draws of its own.

With s(x) = min(1, beta q(x)/P(x)), Z_beta/Z = E_p s, AR = Z_beta/beta, and TVD(p, p_beta) =
E_p (1 - s/E_p s)+: Eqs. 2, 3 and 9 as means over p. So the draws of one good proposal show the
trade-off of any other, down to rates that its own draws would not reach.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

import quasir as qr
from experiments.plots import MARKS

__all__ = ["RATES", "Judged", "judge"]

RATES = np.geomspace(1.0, 1e-7, 85)
LEVELS, TIMES = 300, 200
"""Betas that are tried, and resamplings behind a band."""


@dataclass(frozen=True)
class Judged:
    """TVD(p, q), and TVD(p, p_beta) at `RATES` with its 95 % band; NaN above the highest rate."""

    of_q: float
    tvd: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def at(self, rate: float) -> float:
        """Return TVD at an acceptance rate."""
        return float(np.interp(-math.log(rate), -np.log(RATES), self.tvd))

    def said(self, rate: float) -> str:
        """Return TVD and its band at an acceptance rate, in words."""
        i = int(np.argmin(np.abs(np.log(RATES / rate))))
        if self.tvd[i] < 1e-9:
            return f"0 on these draws at AR {rate:.1g}"
        return f"{self.tvd[i]:.2f} ({self.low[i]:.2f} to {self.high[i]:.2f}) at AR {rate:.1g}"

    def numbers(self) -> dict[str, Any]:
        """Return all numbers, for a JSON file."""
        lines = {"TVD": self.tvd, "low": self.low, "high": self.high}
        return {"TVD(p, q)": self.of_q, "AR": RATES.tolist()} | {
            name: [x if math.isfinite(x) else None for x in line.tolist()]
            for name, line in lines.items()
        }

    def draw(self, axes: Axes, colour: str, style: str = "-") -> None:
        """Draw the line, its band, and q as a disc."""
        axes.fill_between(RATES, self.low, self.high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(RATES, self.tvd, style, color=colour)
        marker, size = MARKS["q"]
        axes.plot(1.0, self.of_q, marker, color=colour, markersize=size, clip_on=False, zorder=5)


def judge(draws: qr.Draws, log_q: np.ndarray, log_z: float) -> Judged:
    """Return the trade-off of a proposal.

    Parameters
    ----------
    draws : Draws
        Those with P > 0, of any proposal that reaches all of p.
    log_q : array
        log q of the judged proposal for each of them; -inf where it cannot draw it.
    log_z : float
    """
    log_inverse = log_q - draws.log_p
    weights = np.exp(draws.log_ratio - np.logaddexp.reduce(draws.log_ratio))
    # Draws of one text share everything but their number: a text is one row.
    pairs, rows = np.unique(np.stack([log_inverse, draws.log_ratio]), axis=1, return_inverse=True)
    each = np.exp(pairs[1] - np.logaddexp.reduce(draws.log_ratio))
    counts = np.bincount(rows.reshape(-1), minlength=len(each))
    finite = pairs[0][pairs[0] > -np.inf]
    log_betas = np.linspace(-finite.max() - 3.0, -finite.min() + 12.0, LEVELS)
    kept = np.exp(np.minimum(log_betas[:, None] + pairs[0], 0.0))
    rng = np.random.default_rng(0)
    again = rng.multinomial(counts.sum(), counts / counts.sum(), size=TIMES)
    tvd = _tvd(counts * each, kept, log_betas, log_z, math.nan)
    all_tvd = np.array([_tvd(one * each, kept, log_betas, log_z) for one in again])
    low, high = np.quantile(all_tvd, [0.025, 0.975], axis=0)
    low, high = (np.where(np.isnan(tvd), np.nan, end) for end in (low, high))
    of_q = 1.0 - float(weights @ np.minimum(1.0, np.exp(log_inverse + log_z)))
    return Judged(of_q, tvd, low, high)


def _tvd(
    weights: np.ndarray,
    kept: np.ndarray,
    log_betas: np.ndarray,
    log_z: float,
    above: float | None = None,
) -> np.ndarray:
    """Return TVD(p, p_beta) at each of `RATES`; `kept` is s(x), a row for each beta.

    Above the rate of q_proj it is `above`, by default the TVD of q_proj.
    The weights are those of p, and sum to 1 but for a resampling, which changes Z as much.
    """
    log_z = log_z + math.log(weights.sum())
    weights = weights / weights.sum()
    part = kept @ weights
    tvd = np.maximum(1.0 - kept / part[:, None], 0.0) @ weights
    log_rate = log_z + np.log(part) - log_betas
    # The rate falls as beta grows.
    return np.interp(-np.log(RATES), -log_rate, tvd, left=above)
