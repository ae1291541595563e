"""A trade-off as a table, for the terminal and for a notebook."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from quasir.core.formatting import html_table, level_text, rounded_up, tail_text, wrapped
from quasir.estimation.estimate import Estimate
from quasir.estimation.quantities import QUANTITIES

if TYPE_CHECKING:
    from quasir.certificates.curve import Curve

COLUMNS = {name: quantity.column for name, quantity in QUANTITIES.items() if quantity.column}
HEAD = ("beta", *COLUMNS.values())


def curve_text(curve: Curve, rows: int = 10) -> str:
    """Return about `rows` rows of the trade-off, and its warnings, in 80 columns."""
    table = [list(HEAD), *_rows(curve, rows)]
    widths = [max(len(row[j]) for row in table) for j in range(len(HEAD))]
    lines = wrapped(_title(curve), further="")
    for row in table:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells))
    for note in _notes(curve, table):
        lines += wrapped(note)
    return "\n".join(lines)


def curve_html(curve: Curve, rows: int = 10) -> str:
    """Return the same rows and warnings as HTML."""
    body = _rows(curve, rows)
    return html_table(_title(curve), HEAD, body, _notes(curve, body))


def _title(curve: Curve) -> str:
    return (
        f"Trade-off from {curve.n:,} draws, {curve.n_possible:,} of them with P > 0 "
        f"(ESS {curve.ess:,.0f}, {tail_text(curve.tail.k)})"
    )


def _rows(curve: Curve, rows: int) -> list[list[str]]:
    picked = np.unique(np.linspace(0, len(curve) - 1, rows).round().astype(int))
    return [
        [level_text(float(curve.log_betas[i]))]
        + [_cell(curve.estimates[column][i]) for column in COLUMNS]
        for i in picked
    ]


def _notes(curve: Curve, table: list[list[str]]) -> list[str]:
    notes = [f"! {warning}" for warning in curve.warnings]
    if any("≤" in cell for row in table for cell in row):
        notes.insert(0, "≤ no draw lies above this beta: 0 on these draws, at most this (95 %)")
    return notes


def _cell(part: Estimate) -> str:
    if math.isnan(part.value):
        return "unknown"
    if math.isnan(part.se):
        return f"≤ {rounded_up(part.high, 2):.2g}"
    if part.value == part.low == part.high:
        return f"{part.value:.3g}, certain"
    return f"{part.value:.3g} ± {part.se:.1g}"
