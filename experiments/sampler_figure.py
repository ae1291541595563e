"""Each quantity of a comparison against samples per proposal draw (`fig:qrs_vs_imh`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.plots import COLOURS, FONT, GREY, new_figure, rates_axis
from quasir.compare import Comparison, Row
from quasir.compare.sampler_table import BLEU
from quasir.estimation.estimate import Key, Moment

ACROSS = 2  # panels in a row, so that a phone shows them
MARKERS = "D^PvX"
APART = 1.05  # points at one rate are moved apart by this factor, so that their bars do not overlap
NAMES = {
    "proposal": "proposal q",
    "qrs": "QRS",
    "imh": "IMH",
    "imh-reset": "IMH-reset",
    "sir": "SIR",
    "rwmh": "RWMH",
    "rwmh-reset": "RWMH-reset",
}


def plot_comparison(found: Comparison) -> Figure:
    """Draw each quantity against samples per proposal, with the standard deviation over runs."""
    panels: list[tuple[Key, str, float]] = [
        (Moment(name), f"{'% ' * boolean}{name}", 100.0 if boolean else 1.0)
        for name, boolean in found.boolean.items()
    ]
    panels += [
        ("unique", "% unique", 100.0),
        ("self_bleu", f"Self-BLEU-{BLEU}, words (%)", 100.0),
        ("ppl", "PPL under the base", 1.0),
        ("tvd", "TVD to p, where known", 1.0),
    ]
    panels = [panel for panel in panels if any(row.cells[panel[0]].known for row in found.rows)]
    across, down = min(ACROSS, len(panels)), -(-len(panels) // ACROSS)
    figure, axes = new_figure(down, across)
    for ax, (quantity, label, scale) in zip(axes, panels, strict=False):
        _draw(ax, found, quantity, scale)
        rates_axis(ax, label, min(row.acceptance_rate for row in found.rows))
        # Bars may reach below 0, where no value can be; the axis of a distance begins at 0.
        least = -5.0 if scale == 100 else -np.inf
        low, high = ax.get_ylim()
        ax.set_ylim(bottom=-0.05 * high if quantity == "tvd" else max(low, least))
        wanted = found.wanted.get(quantity.feature) if isinstance(quantity, Moment) else None
        if wanted is not None:
            ax.axhline(scale * wanted, color=GREY, linewidth=1, linestyle=":")
    for ax in axes[len(panels) :]:
        ax.remove()
    handles: dict[str, Artist] = {}
    for ax in figure.axes:
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    style: dict[str, Any] = {"loc": "outside lower center", "frameon": False, "fontsize": FONT}
    figure.legend(handles.values(), handles.keys(), ncols=3, **style)
    return figure


def _draw(ax: Axes, found: Comparison, quantity: Key, scale: float) -> None:
    """Draw one quantity: a line for each sampler, open triangles for bounds, a disc for q."""
    samplers = list(dict.fromkeys(row.sampler for row in found.rows if row.sampler != "proposal"))
    for i, sampler in enumerate(["proposal", *samplers], start=-1):
        known = [r for r in found.rows if r.sampler == sampler and r.cells[quantity].known]
        known.sort(key=lambda row: row.acceptance_rate)
        rows = [row for row in known if not row.cells[quantity].unseen]
        bounds = [row for row in known if row.cells[quantity].unseen]
        alone = sampler == "proposal"
        apart = 1.0 if alone else APART ** (i - (len(samplers) - 1) / 2)
        colour = GREY if alone else COLOURS[i % len(COLOURS)]
        sds = [_spread(row, quantity) for row in rows]
        ax.errorbar(
            [row.acceptance_rate * apart for row in rows],
            [scale * row.cells[quantity].runs.mean for row in rows],
            [scale * sd for sd in sds],
            label=NAMES[sampler],
            color=colour,
            marker="o" if alone else MARKERS[i % len(MARKERS)],
            markersize=5 if alone else 4,
            linewidth=1.2,
            capsize=2,
        )
        ax.plot(
            [row.acceptance_rate * apart for row in bounds],
            [scale * row.cells[quantity].high for row in bounds],
            "v",
            color=colour,
            markerfacecolor="none",
            label="at most (95 %)" if bounds else None,
        )


def _spread(row: Row, quantity: Key) -> float:
    """Return the sd over runs; of one run, the standard error of a share, as far as it is one."""
    mean, sd = row.cells[quantity].runs.mean, row.cells[quantity].runs.sd
    if math.isnan(sd) and isinstance(quantity, Moment) and 0 <= mean <= 1:
        return math.sqrt(mean * (1 - mean) / row.n)
    return 0.0 if math.isnan(sd) else sd
