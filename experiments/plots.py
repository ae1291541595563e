"""The panels of the paper's figures: quality against the acceptance rate, which falls to the right.

A disc is q itself, at an acceptance rate of 1; a square is q_proj, q filtered to the support of P;
lines are p_beta. A line ends where no draw lies above beta, unless a known ceiling proves the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import quasir as qr
from quasir.certificates.figures import COLOURS, draw_band

__all__ = [
    "LOWEST",
    "draw_tvd",
    "levels",
    "mark_projection",
    "new_figure",
    "rates_axis",
    "trade_off_figure",
]

LOWEST = 1e-5
"""The lowest acceptance rate of the paper's figures."""
POINTS = 160


def levels(draws: qr.Draws, lowest: float = LOWEST) -> np.ndarray:
    """Return log betas from below almost all ratios up to an acceptance rate of `lowest`."""
    ratio = draws.log_ratio
    ratio = ratio[ratio > -np.inf]
    if not len(ratio):
        return np.zeros(1)
    log_z = np.logaddexp.reduce(ratio) - math.log(len(draws))
    low = float(np.quantile(ratio, 0.001)) - 1.0
    # Where beta is above every ratio, AR is Z/beta.
    return np.linspace(low, max(float(log_z - math.log(lowest)), low + 1.0), POINTS)


def new_figure(across: int, down: int = 1, width: float = 3.1) -> tuple[Figure, np.ndarray]:
    """Return a figure and its axes, as an array of `down` rows."""
    figure = Figure(figsize=(width * across, 2.7 * down), layout="constrained")
    return figure, figure.subplots(down, across, squeeze=False)


def rates_axis(axes: Axes, label: str, lowest: float = LOWEST) -> None:
    """Set up the axis of the acceptance rate: logarithmic, from 1 down to `lowest`."""
    axes.set_xscale("log")
    axes.set_xlim(1.35, lowest / 1.35)
    axes.set_xlabel("Acceptance rate")
    axes.set_ylabel(label)
    axes.grid(alpha=0.25)


def shown(curve: qr.Curve) -> np.ndarray:
    """Return where a line is drawn: where draws lie above beta, or a ceiling proves the value."""
    proved = np.broadcast_to(curve.tvd.proved, curve.log_betas.shape)
    return (curve.n_above > 0) | proved


def draw_tvd(
    axes: Axes,
    curve: qr.Curve,
    name: str,
    colour: str,
    *,
    points: bool = True,
    band: bool = True,
) -> None:
    """Draw TVD(p, p_beta) against the acceptance rate, its band, and q as a disc."""
    at = shown(curve)
    if band:
        draw_band(axes, curve.acceptance_rate.value[at], curve.tvd[at], name, colour)
    else:
        axes.plot(curve.acceptance_rate.value[at], curve.tvd.value[at], label=name, color=colour)
    if points:
        axes.plot(1.0, curve.proposal.tvd.value, "o", color=colour, markersize=5, clip_on=False)


def trade_off_figure(
    curve: qr.Curve,
    *,
    wanted: Mapping[str, float],
    observed: Mapping[str, list[tuple[float, float]]] | None = None,
    project: bool = False,
    beside: Mapping[str, qr.Curve] | None = None,
    lowest: float = LOWEST,
) -> Figure:
    """Draw the panels of Fig. 4: TVD with its bounds, KL, moments, and KL from the base.

    Parameters
    ----------
    curve : Curve
    wanted : mapping
        Feature -> its wanted mean, a dotted line; the target's own mean is a dashed one.
    observed : mapping, optional
        Feature -> (acceptance rate, mean of samples), drawn as crosses.
    project : bool
        Whether to mark q_proj.
    beside : mapping, optional
        Name -> the curve of another proposal, for the panel of TVD.
    lowest : float
        The lowest acceptance rate shown.
    """
    figure, (axes,) = new_figure(4)
    at, rate = shown(curve), curve.acceptance_rate.value
    draw_tvd(axes[0], curve, "p_β", COLOURS[0])
    axes[0].plot(rate[at], curve.tvd_bound.value[at], ":", color=COLOURS[0], label="1 - p(A_β)")
    axes[0].plot(
        rate[at], curve.truncated_mass.value[at], "--", color=COLOURS[2], label="1 - Z_β/Z"
    )
    others = zip((beside or {}).items(), (COLOURS[1], *COLOURS[3:]), strict=False)
    for (name, other), colour in others:
        draw_tvd(axes[0], other, name, colour)
    draw_band(axes[1], rate[at], curve.kl[at], "p_β", COLOURS[0])
    axes[1].plot(1.0, curve.proposal.kl.value, "o", color=COLOURS[0], markersize=5, clip_on=False)
    for (name, moment), colour in zip(curve.moments.items(), COLOURS[1:], strict=False):
        draw_band(axes[2], rate, moment, name, colour)
        of_q = curve.proposal.moments[name].value
        axes[2].plot(1.0, of_q, "o", color=colour, markersize=5, clip_on=False)
        if name in wanted:
            axes[2].axhline(wanted[name], color=colour, linestyle=":", linewidth=1)
        axes[2].axhline(target_moment(curve, name), color=colour, linestyle="--", linewidth=0.8)
        for at_rate, mean in (observed or {}).get(name, []):
            axes[2].plot(at_rate, mean, "x", color=colour, markersize=6)
    if curve.kl_base is not None:
        draw_band(axes[3], rate, curve.kl_base, "p_β", COLOURS[0])
        axes[3].plot(1.0, curve.proposal.kl_base.value, "o", color=COLOURS[0], markersize=5)
    if project:
        for panel, quantity in ((axes[0], "tvd"), (axes[1], "kl"), (axes[3], "kl_base")):
            mark_projection(panel, curve, quantity)
    for panel, label in zip(
        axes, ("TVD(p, ·)", "KL(p, ·), nats", "Moments", "KL(·, a), nats"), strict=True
    ):
        rates_axis(panel, label, lowest)
    axes[0].legend(frameon=False, fontsize="small", loc="upper right", handlelength=1.5)
    axes[2].legend(frameon=False, fontsize="small")
    return figure


def mark_projection(
    axes: Axes,
    curve: qr.Curve,
    quantity: str,
    colour: str = "black",
    label: str | None = "q_proj",
) -> None:
    """Mark q_proj, the naive filter, at its acceptance rate (appendix D)."""
    part: Any = getattr(curve.projection, quantity)
    if part is None or not math.isfinite(part.value):
        return
    rate = curve.projection.acceptance_rate.value
    axes.plot(
        rate, part.value, "s", color=colour, markersize=4, label=label, clip_on=False, zorder=5
    )


def target_moment(curve: qr.Curve, name: str) -> float:
    """Return the mean of a feature under p: that of p_beta above every ratio."""
    top = float(curve.evaluator.ratios.log_max) + 1.0
    return float(curve.at(log_beta=top).moments[name].value)
