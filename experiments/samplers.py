"""Tables of samplers beside each other: what `qrs_vs_imh` and the extended tables share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import quasir as qr
from experiments.results import Row
from experiments.walks import compare_with_walks
from quasir.compare import Comparison
from quasir.compare import Row as Measured
from quasir.core.progress import Lines
from quasir.estimation.estimate import Moment

__all__ = ["compared", "name_of", "rows_of", "said_of_walks"]

SAMPLES, RUNS, BURN_IN = 1000, 10, 1000
"""As in the paper; less where the pool is too small."""
BURNT = 40
"""The burn-in is at most the pool's draws divided by this,"""
OF_A_WALK = 4
"""and at most the steps of a walk divided by this."""
ENOUGH = 10
"""Samples of a walk, below which it is not judged."""
COLUMNS = {"ppl": "PPL", "self_bleu": "Self-BLEU-5", "unique": "% unique", "tvd": "TVD", "kl": "KL"}
PER_CENT = ("self_bleu", "unique")


def compared(
    folder: Path,
    samplers: Sequence[str],
    rates: Sequence[float],
    walk_steps: int,
    editor: str | None = None,
) -> Comparison:
    """Compare samplers on the draws of a pool; see `experiments/walks.py`."""
    size = len(qr.store.Store.open(folder))
    return compare_with_walks(
        folder,
        samplers,
        rates,
        n=SAMPLES,
        runs=RUNS,
        walk_steps=walk_steps,
        editor=editor,
        burn_in=min(BURN_IN, size // BURNT, walk_steps // RUNS // OF_A_WALK),
        reporter=Lines(),
    )


def name_of(row: Measured) -> str:
    """Return a row's name, with its nominal rate, as the paper's tables have it."""
    return row.method if row.method == "proposal" else f"{row.method} at {row.cost.rate:g}"


def rows_of(
    measured: Sequence[Measured],
    features: Sequence[str],
    columns: Sequence[str] = tuple(COLUMNS),
    stated: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Row]:
    """Return a row for each number of the paper's table.

    Parameters
    ----------
    measured : sequence of Row
    features, columns : sequence of str
    stated : mapping, optional
        Name of a row -> feature or column -> the paper's number.
    """
    rows: list[Row] = []
    for one in measured:
        name = name_of(one)
        theirs = (stated or {}).get(name, {})
        for feature in features:
            text = one.cells[Moment(feature)].text(100.0)
            rows.append((f"{name}: % {feature}", theirs.get(feature, "-"), text))
        for column in columns:
            text = one.cells[column].text(100.0 if column in PER_CENT else 1.0)
            rows.append((f"{name}: {COLUMNS[column]}", theirs.get(column, "-"), text))
    return rows


def said_of_walks(measured: Sequence[Measured]) -> str:
    """Say what the random walks show, or that they are too short to show anything."""
    walks = [row for row in measured if row.sampler == "rwmh"]
    long = [row for row in walks if row.n >= ENOUGH]
    if not long:
        n = max((row.n for row in walks), default=0)
        return f"The walks have {n} samples a run here, too few to say whether they move."
    least = min(long, key=lambda row: row.cells["unique"].runs.mean)
    unique = 100 * least.cells["unique"].runs.mean
    said = f"Random walks move slowly: {unique:.0f} % of the {least.n} samples of {name_of(least)}"
    short = ", ".join(name_of(row) for row in walks if row.n < ENOUGH)
    return f"{said} are unique." + (f" Too short to be judged: {short}." if short else "")
