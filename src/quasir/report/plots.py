"""Figures: quality against cost, with intervals. matplotlib is imported when one is drawn."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from quasir.estimate import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from quasir.tradeoff import Curve

__all__ = ["COLOURS", "plot_curve"]

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Okabe and Ito's, which colour-blind readers can tell apart."""


def plot_curve(curve: Curve) -> Figure:
    """Draw TVD, its bound and KL against acceptance rate; KL to the base and moments if known."""
    from matplotlib.figure import Figure

    panels: list[tuple[str, dict[str, Estimate]]] = [
        ("Total variation distance", {"TVD(p, p_β)": curve.tvd, "upper bound": curve.tvd_bound}),
        ("KL divergence (nats)", {"KL(p, p_β)": curve.kl}),
    ]
    if curve.kl_base is not None:
        panels.append(("KL to the base (nats)", {"KL(p_β, a)": curve.kl_base}))
    if curve.moments:
        panels.append(("Mean of a feature", curve.moments))
    figure = Figure(figsize=(3.3 * len(panels), 2.9), layout="constrained")
    rate = curve.acceptance_rate.value
    for axes, (label, lines) in zip(
        np.atleast_1d(figure.subplots(1, len(panels))), panels, strict=True
    ):
        for (name, part), colour in zip(lines.items(), COLOURS * 9, strict=False):
            draw_band(axes, rate, part, name, colour)
        axes.set_xlabel("Acceptance rate")
        axes.set_ylabel(label)
        # The proposal stands at 1, often far from the curve.
        if rate.min() > 0 and 3 * rate.min() < 1:
            axes.set_xscale("log")
        if len(lines) > 1 or label.startswith("Mean"):
            axes.legend(frameon=False, fontsize="small")
        axes.grid(alpha=0.25)
    # The proposals' own distances, before any rejection.
    first = figure.axes[0]
    for certificate, marker in ((curve.proposal, "o"), (curve.projection, "s")):
        if math.isfinite(certificate.tvd.value):
            first.plot(
                certificate.acceptance_rate.value,
                certificate.tvd.value,
                marker,
                color="black",
                markersize=4,
                label=certificate.name,
            )
    first.legend(frameon=False, fontsize="small")
    return figure


def draw_band(axes: Axes, x: np.ndarray, part: Estimate, name: str, colour: str) -> None:
    """Draw a line with its 95 % interval as a band."""
    axes.plot(x, part.value, color=colour, label=name, linewidth=1.5)
    high = np.where(np.isfinite(part.high), part.high, part.value)
    axes.fill_between(x, part.low, high, color=colour, alpha=0.2, linewidth=0)
