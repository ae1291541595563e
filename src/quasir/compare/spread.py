"""The spread of importance-sampling estimates over runs, and the errors that each run claims.

`tab:is-variance` of the paper: the pool is cut into ten parts, and each estimates Z, AR, TVD, KL
and the moments at the same five betas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quasir.certificates.tradeoff import tradeoff
from quasir.compare.cells import NONE, Cell
from quasir.compare.table import listed, markdown
from quasir.core.formatting import level_text
from quasir.core.types import Array
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.estimation.estimate import Estimate
from quasir.estimation.quantities import Key, Moment

__all__ = ["ABOVE", "BETAS", "Variance", "betas_of", "variance"]

RUNS, BETAS = 10, 5
"""As many as in the paper."""
LABELS: dict[Key, Key] = {"acceptance_rate": "AR", "tvd": "TVD", "kl": "KL"}
"""Quantities of the paper's table, and their names there."""
ABOVE = 20
"""Draws of each run above the largest beta; with fewer, a certificate doubts its TVD and KL."""


@dataclass(frozen=True)
class Spread:
    """One quantity at one beta, over the runs; `cell` holds values and claimed errors."""

    log_beta: float
    quantity: Key
    cell: Cell

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready row."""
        known = self.cell.known
        numbers = {
            "mean": self.cell.runs.mean if known else math.nan,
            "sd": self.cell.runs.sd if known else math.nan,
            "claimed_se": self.cell.claimed,
        }
        return {
            "log_beta": self.log_beta if math.isfinite(self.log_beta) else None,
            "quantity": str(self.quantity),
            **{name: x if math.isfinite(x) else None for name, x in numbers.items()},
            "runs": len(self.cell.values),
        }


@dataclass(frozen=True)
class Variance:
    """The table: spreads at each beta, from `runs` runs of `draws` draws each.

    `above` draws of a run lie above the largest beta, on average.
    """

    spreads: list[Spread]
    runs: int
    draws: int
    above: float

    def markdown(self, title: str) -> str:
        """Return the table as Markdown."""
        head = ("beta", "estimate of", "mean", "sd over runs", "claimed se", "sd/se")
        table: dict[str, list[str]] = {name: [] for name in head}
        for spread in self.spreads:
            cell = spread.cell
            sd = cell.runs.sd if cell.known else math.nan
            line = (
                level_text(spread.log_beta) if math.isfinite(spread.log_beta) else "any",
                spread.quantity.feature if isinstance(spread.quantity, Moment) else spread.quantity,
                f"{cell.runs.mean:.4g}" if cell.known else "unknown",
                _number(sd),
                _number(cell.claimed),
                f"{sd / cell.claimed:.2f}" if cell.claimed > 0 else NONE,
            )
            for name, text in zip(head, line, strict=True):
                table[name].append(text)
        return f"# {title}\n\n{markdown(table)}\n\n{listed(self.notes())}\n"

    def notes(self) -> list[str]:
        """Return the notes under the table."""
        share = 1 / math.sqrt(2 * (self.runs - 1))
        notes = [
            f"{self.runs} runs of {self.draws:,} draws each, disjoint parts of the pool. sd over "
            "runs is what the paper reports; claimed se is the mean of the standard errors that "
            f"each run estimates from its own draws. With {self.runs} runs the sd itself is known "
            f"to {100 * share:.0f} %, so that sd/se is mostly within {1 - 2 * share:.2g} and "
            f"{1 + 2 * share:.2g} where the claim is right.",
            "log Z has the relative error of Z. The betas are evenly spaced in log, from where AR "
            f"begins to fall; above the largest lie {self.above:.4g} draws of a run, on average.",
        ]
        if self.above < ABOVE:
            notes.append(
                f"! That is fewer than {ABOVE}: at large betas TVD and KL rest on few draws, and "
                "their errors may be larger than is claimed. Draw more."
            )
        if any(spread.cell.unseen for spread in self.spreads):
            notes.append(
                "No se is claimed where in some runs no draw lies above beta, so that TVD and KL "
                "are 0 on those draws."
            )
        return notes


def variance(pool: Draws, runs: int = RUNS, log_betas: Sequence[float] | None = None) -> Variance:
    """Estimate everything from each of `runs` disjoint parts of a pool, at the same betas.

    Examples
    --------
    >>> from scipy import stats
    >>> import quasir as qr
    >>> target, proposal = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))
    >>> table = variance(qr.draw(target, proposal, 50_000, seed=0))
    >>> table.draws, len(table.spreads)
    (5000, 16)
    """
    length = len(pool) // runs
    if runs < 2 or not length:
        raise InputError(
            f"{len(pool):,} draws cannot be parted into {runs} runs, and a spread needs at "
            "least two runs: draw more."
        )
    levels = betas_of(pool, runs) if log_betas is None else np.asarray(log_betas, np.float64)
    parts = [pool.take(np.arange(run * length, (run + 1) * length)) for run in range(runs)]
    curves = [tradeoff(part, log_betas=levels) for part in parts]
    spreads = [Spread(-math.inf, "log Z", _cell([curve.log_z[0] for curve in curves]))]
    moments: dict[Key, Key] = {Moment(name): Moment(name) for name in pool.features}
    for i, level in enumerate(levels):
        for key, label in (LABELS | moments).items():
            estimates = [curve.estimates[key][i] for curve in curves]
            spreads.append(Spread(float(level), label, _cell(estimates)))
    above = float((pool.log_ratio > levels[-1]).sum()) / runs
    return Variance(spreads, runs, length, above)


def betas_of(pool: Draws, runs: int) -> Array:
    """Return five log betas: from where AR begins to fall to where few draws of a run lie above."""
    bare = Draws(log_p=pool.log_p, log_q=pool.log_q, log_u=pool.log_u)
    first = float(tradeoff(bare).log_betas[0])
    ratios = np.sort(pool.log_ratio)
    ratios = ratios[ratios > -np.inf]
    for above in (ABOVE * runs, runs, 1):
        top = ratios[-min(above, len(ratios))] if len(ratios) else first
        # The largest beta is the next lower ratio, so that `above` draws lie above it; where
        # there is none above the first beta, it is a level below the top.
        lower = ratios[(ratios < top) & (ratios > first)]
        if len(lower):
            return np.linspace(first, lower[-1], BETAS)
        if top > first:
            return np.linspace(first, top, BETAS + 1)[:-1]
    # All ratios are equal: every p_beta is p, and beta changes AR alone.
    return np.linspace(first, first + (BETAS - 1) * math.log(2), BETAS)


def _cell(estimates: list[Estimate]) -> Cell:
    return Cell(
        tuple(float(estimate.value) for estimate in estimates),
        tuple(float(estimate.se) for estimate in estimates),
        tuple(float(estimate.high) for estimate in estimates),
    )


def _number(x: float) -> str:
    return f"{x:.2g}" if math.isfinite(x) else NONE
