"""The figure of a run: distances and moments against steps. matplotlib is imported late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from quasir.certificates.figures import COLOURS, draw_band
from quasir.estimation.estimate import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_learning"]


def plot_learning(rows: list[dict[str, Any]]) -> Figure:
    """Plot KL(p, pi), TVD(p, pi), the moments of pi and its efficiency against steps.

    Parameters
    ----------
    rows : list of dict
        The lines of ``log.jsonl``.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.4, 2.9), layout="constrained")
    steps = np.array([row["step"] for row in rows])
    panels = [("KL(p, π), nats", ["kl"]), ("TVD(p, π)", ["tvd"]), ("Moments of π", None)]
    axes = figure.subplots(1, 4)
    for axis, (label, names) in zip(axes, panels, strict=False):
        if names is None:
            parts = {name: [row["moments"][name] for row in rows] for name in rows[0]["moments"]}
        else:
            parts = {name: [row[name] for row in rows] for name in names}
        for (name, part), colour in zip(parts.items(), COLOURS * 9, strict=False):
            draw_band(axis, steps, _column(part), name, colour)
        axis.set_ylabel(label)
        if names is None:
            axis.legend(frameon=False, fontsize="small")
    axes[3].plot(steps, [row["efficiency"] or np.nan for row in rows], color=COLOURS[0])
    axes[3].set_ylabel("Effective draws a draw from π")
    for axis in axes:
        axis.set_xlabel("Step")
        axis.grid(alpha=0.25)
        # A dashed line marks each round of new draws.
        for row in rows:
            if row["event"] == "round" and row["step"]:
                axis.axvline(row["step"], color="grey", linewidth=0.5, linestyle="--")
    return figure


def _column(parts: list[dict[str, Any]]) -> Estimate:
    """Return estimates as one estimate of arrays, with NaN for values that were not finite."""
    columns = {
        end: np.array([np.nan if part[end] is None else part[end] for part in parts])
        for end in ("value", "se", "low", "high")
    }
    return Estimate(**columns)
