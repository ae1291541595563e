"""The table of variances (`tab:is-variance`): ten runs, their spread, and the errors they claim.

The pool is cut into ten parts, and each estimates Z, AR, TVD, KL and the moments at the same five
betas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import quasir as qr
from experiments.results import Place, Result, Row, main
from quasir.compare.sampler_table import NONE, Cell, bullet_list, markdown
from quasir.core.formatting import level_text
from quasir.core.types import Array
from quasir.estimation.estimate import Key, Moment

RUNS, BETAS = 10, 5
"""As many as in the paper."""
LABELS: dict[Key, Key] = {"acceptance_rate": "AR", "tvd": "TVD", "kl": "KL"}
"""Quantities of the paper's table, and their names there."""
ABOVE = 20
"""Draws of each run above the largest beta; with fewer, a certificate warnings its TVD and KL."""
POOL = "scientists-mixed"
STATED = {
    "AR": ("1.00 ± 0.00", "1.4e-1 ± 3.4e-4", "1.6e-2 ± 6.8e-5", "1.3e-3 ± 1.2e-5",
           "9.2e-5 ± 1.8e-6"),
    "TVD": ("0.70 ± 0.00", "0.38 ± 0.01", "0.14 ± 0.01", "0.02 ± 0.01", "1.6e-6 ± 5.6e-7"),
    "KL": ("2.35 ± 0.09", "0.83 ± 0.08", "0.21 ± 0.05", "0.02 ± 0.02", "3.3e-7 ± 2.0e-6"),
}  # fmt: skip


def run(place: Place) -> Result:
    """Cut the pool into ten runs, and compare their spread with what each claims."""
    draws = qr.Draws.load(place.pool(POOL, POOL))
    found = variance(draws)
    rows: list[Row] = []
    ratios = []
    levels = sorted({s.log_beta for s in found.spreads if math.isfinite(s.log_beta)})
    for spread in found.spreads:
        if str(spread.quantity) not in STATED or not spread.cell.known:
            continue
        place_of = levels.index(spread.log_beta)
        sd, claimed = spread.cell.runs.sd, spread.cell.claimed
        if claimed > 0:
            ratios.append(sd / claimed)
        rows.append(
            (
                f"{spread.quantity} at the {ORDER[place_of]} beta, {math.exp(spread.log_beta):.3g}",
                STATED[str(spread.quantity)][place_of],
                f"{spread.cell.runs.mean:.3g} ± {sd:.2g}, claimed {claimed:.2g}",
            )
        )
    return Result(
        title="Table of variances (`tab:is-variance`)",
        rows=rows,
        draws={POOL: len(draws)},
        verdict=verdict(found, ratios),
    )


ORDER = ("first", "second", "third", "fourth", "fifth")


def verdict(found: Variance, ratios: list[float]) -> str:
    """Say what the spread shows."""
    expected = 2 / math.sqrt(2 * (found.runs - 1))
    outside = sum(abs(ratio - 1) > expected for ratio in ratios)
    return (
        f"The spread of {found.runs} runs of {found.draws:,} draws is {min(ratios):.2f} to "
        f"{max(ratios):.2f} times the error that one run claims. Of {found.runs} runs, "
        f"{1 - expected:.2f} to {1 + expected:.2f} is expected (95 %); {outside} of the "
        f"{len(ratios)} numbers below, which share their draws, lie outside. The paper has runs "
        "of 1,000,000, and no claims to compare. Its TVD of 1.6e-6 at the fifth beta means that "
        "hardly any draw lay above it: such a number says what the draws showed, not how far p "
        "is, and a certificate gives an upper end instead. At its first beta AR is 1.00, though "
        "only 69 % of its proposal's draws are scientists: so its P is above 0 for the others too "
        "(a large tilt). Ours is 0 for them, and our AR ends at q(Supp P)."
    )


@dataclass(frozen=True)
class RunSpread:
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

    spreads: list[RunSpread]
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
        return f"# {title}\n\n{markdown(table)}\n\n{bullet_list(self.notes())}\n"

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


def variance(
    pool: qr.Draws, runs: int = RUNS, log_betas: Sequence[float] | None = None
) -> Variance:
    """Estimate everything from each of `runs` disjoint parts of a pool, at the same betas."""
    length = len(pool) // runs
    if runs < 2 or not length:
        raise qr.errors.InputError(
            f"{len(pool):,} draws cannot be parted into {runs} runs, and a spread needs at "
            "least two runs: draw more."
        )
    levels = choose_betas(pool, runs) if log_betas is None else np.asarray(log_betas, np.float64)
    parts = [pool.take(np.arange(run * length, (run + 1) * length)) for run in range(runs)]
    curves = [qr.tradeoff(part, log_betas=levels) for part in parts]
    spreads = [RunSpread(-math.inf, "log Z", Cell.of([curve.log_z[0] for curve in curves]))]
    moments: dict[Key, Key] = {Moment(name): Moment(name) for name in pool.features}
    for i, level in enumerate(levels):
        for key, label in (LABELS | moments).items():
            estimates = [curve.estimates[key][i] for curve in curves]
            spreads.append(RunSpread(float(level), label, Cell.of(estimates)))
    above = float((pool.log_ratio > levels[-1]).sum()) / runs
    return Variance(spreads, runs, length, above)


def choose_betas(pool: qr.Draws, runs: int) -> Array:
    """Return five log betas: from where AR begins to fall to where few draws of a run lie above."""
    bare = qr.Draws(log_p=pool.log_p, log_q=pool.log_q, log_u=pool.log_u)
    first = float(qr.tradeoff(bare).log_betas[0])
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


def _number(x: float) -> str:
    return f"{x:.2g}" if math.isfinite(x) else NONE


if __name__ == "__main__":
    main("is_variance", run, __doc__)
