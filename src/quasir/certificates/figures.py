"""A trade-off as a table and as figures. Only drawing imports matplotlib."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from quasir.core.formatting import html_table, level_text, rounded_up, tail_text, wrapped
from quasir.estimation.estimate import Estimate, Moment
from quasir.estimation.quantities import QUANTITIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from quasir.certificates.curve import Curve

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""The palette of Okabe and Ito, which colour-blind readers can tell apart."""

LABELS = {
    "tvd": "Total variation distance",
    "kl": "KL divergence (nats)",
    "moments": "Mean of a feature",
    "kl_base": "KL to the base (nats)",
}
"""Panel -> the label of its vertical axis, in order."""

COLUMN = 3.4  # the width in inches of a column of a paper, for which the font size is chosen
HEIGHT = 2.5
FONT = 8

COLUMNS = {name: quantity.column for name, quantity in QUANTITIES.items() if quantity.column}
HEAD = ("beta", *COLUMNS.values())


@dataclass(frozen=True)
class Panel:
    """One quantity against the acceptance rate."""

    name: str
    label: str
    lines: dict[str, Estimate]


def panels_of(curve: Curve) -> list[Panel]:
    """Return the panels that have lines."""
    lines: dict[str, dict[str, Estimate]] = {name: {} for name in LABELS}
    for key, part in curve.estimates.items():
        if isinstance(key, Moment):
            lines["moments"][key.feature] = part
        elif (line := QUANTITIES[key].line) is not None:
            lines[line.panel][line.label] = part
    return [Panel(name, LABELS[name], drawn) for name, drawn in lines.items() if drawn]


def plot_curve(curve: Curve, panels: list[Panel] | None = None) -> Figure:
    """Draw panels, two in a row, by default all; one alone is as wide as a column."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    panels = panels_of(curve) if panels is None else panels
    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    with rc_context({"font.size": FONT}):
        figure = Figure(figsize=(columns * COLUMN, rows * HEIGHT), layout="constrained")
        places = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, panel in zip(places, panels, strict=False):
            draw_panel(axes, curve, panel)
        for axes in places[len(panels) :]:
            axes.set_axis_off()
    return figure


def draw_panel(axes: Axes, curve: Curve, panel: Panel) -> None:
    """Draw lines with their bands, and in the panel of TVD also q and q_proj."""
    rate = curve.acceptance_rate.value
    for (name, part), colour in zip(panel.lines.items(), COLOURS * 9, strict=False):
        draw_band(axes, rate, part, name, colour)
    guaranteed = getattr(curve.guarantees, panel.name, None)
    if panel.name in ("tvd", "kl") and guaranteed is not None:
        axes.plot(rate, guaranteed, color=COLOURS[2], label="guaranteed (95 %)", linewidth=1.5)
    if panel.name == "tvd":
        for certificate, marker in ((curve.proposal, "o"), (curve.projection, "s")):
            if math.isfinite(certificate.tvd.value):
                axes.plot(
                    certificate.acceptance_rate.value,
                    certificate.tvd.value,
                    marker,
                    color="black",
                    markersize=4,
                    label=certificate.name,
                )
    axes.set_xlabel("Acceptance rate")
    axes.set_ylabel(panel.label)
    # q is at the acceptance rate 1, often far from the curve.
    if rate.min() > 0 and 3 * rate.min() < 1:
        from matplotlib.ticker import LogLocator, NullFormatter

        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=6))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
    if len(panel.lines) > 1 or panel.name in ("moments", "tvd"):
        axes.legend(frameon=False, loc="best")  # unsaid, it warns on a busy machine
    axes.grid(alpha=0.25)


def draw_band(axes: Axes, x: np.ndarray, part: Estimate, name: str, colour: str) -> None:
    """Draw a line with its 95 % interval as a band."""
    axes.plot(x, part.value, color=colour, label=name, linewidth=1.5)
    high = np.where(np.isfinite(part.high), part.high, part.value)
    axes.fill_between(x, part.low, high, color=colour, alpha=0.2, linewidth=0)


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
