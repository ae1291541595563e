"""The table of variances (`tab:is-variance`): ten runs, their spread, and the errors they claim."""

from __future__ import annotations

import math

import quasir as qr
from experiments.results import Place, Result, Row, main
from quasir.compare import Variance, variance

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


if __name__ == "__main__":
    main("is_variance", run, __doc__)
