"""The parts of the pictures: quality against the acceptance rate, which falls to the right.

A disc is q itself, at an acceptance rate of 1; a square is q_proj, q filtered to the support of P;
a line is p_beta, with a 95 % band. A line ends where no draw lies above beta, unless a known
ceiling proves the rest. Pictures are narrow, so that a phone shows them in full.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

import quasir as qr
from quasir.certificates.figures import COLOURS, draw_band

__all__ = [
    "COLOURS",
    "FONT",
    "GREY",
    "LINES",
    "OURS",
    "draw_line",
    "key",
    "levels",
    "lines_of",
    "mark",
    "new_figure",
    "rates_axis",
    "shown",
]

LOWEST = 1e-5
"""The lowest acceptance rate of the paper's figures."""
LINES = {
    "tvd": (COLOURS[0], "-"),
    "truncated_mass": (COLOURS[0], "--"),
    "tvd_bound": (COLOURS[0], ":"),
    "kl": (COLOURS[3], "-"),
    "kl_base": (COLOURS[4], "-"),
    "female": (COLOURS[1], "-"),
    "science": (COLOURS[2], "-"),
}
"""Colour and style of what the paper's kind of proposal gives, the same in every picture."""
OURS, GREY = "black", "#555555"
"""The colour of proposals that the paper does not have, and of marks in the key."""
POINTS = 160
FEW_DECADES = 0.02
"""An axis that ends above this has ticks between the powers of ten."""
WIDTH, HEIGHT, FONT = 4.8, 2.1, 9
"""Inches of a picture, and of one panel's height; points of its letters."""
MARKS = {"q": ("o", 5), "q_proj": ("s", 4), "samples, ± 2 se": ("x", 6)}


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


def new_figure(down: int, across: int = 1, height: float = HEIGHT) -> tuple[Figure, list[Axes]]:
    """Return a figure and its axes, row by row."""
    with rc_context({"font.size": FONT}):
        figure = Figure(figsize=(WIDTH, height * down), layout="constrained", facecolor="white")
        return figure, list(figure.subplots(down, across, squeeze=False).ravel())


def shown(curve: qr.Curve) -> np.ndarray:
    """Return where a line is drawn: where draws lie above beta, or a ceiling proves the value."""
    proved = np.broadcast_to(curve.tvd.proved, curve.log_betas.shape)
    return (curve.n_above > 0) | proved


def last_rate(curves: Sequence[qr.Curve]) -> float:
    """Return the lowest acceptance rate with a draw above beta: beyond it nothing changes."""
    above = [c.acceptance_rate.value[c.n_above > 0] for c in curves]
    return max(min((rates.min() for rates in above if len(rates)), default=0.1), LOWEST)


def rates_axis(axes: Axes, label: str, lowest: float) -> None:
    """Set up the axis of the acceptance rate: logarithmic, from 1 down to `lowest`."""
    axes.set_xscale("log")
    axes.set_xlim(1.4, lowest / 1.2)
    if lowest > FEW_DECADES:  # powers of ten alone would be one tick or two
        axes.set_xticks([x for x in (1.0, 0.5, 0.2, 0.1, 0.05, 0.02) if x >= lowest])
        axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("Acceptance rate")
    axes.set_ylabel(label)
    axes.grid(alpha=0.25)


def draw_line(axes: Axes, curve: qr.Curve, quantity: str, colour: str = "") -> None:
    """Draw a quantity of p_beta with its band, of q as a disc, and of q_proj as a square.

    A line that is not solid, such as that of a bound, is drawn alone.
    """
    at, rate = shown(curve), curve.acceptance_rate.value
    values, (own, style) = getattr(curve, quantity), LINES[quantity]
    if style != "-":
        axes.plot(rate[at], values.value[at], style, color=colour or own)
        return
    draw_band(axes, rate[at], values[at], "", colour or own)
    mark(axes, 1.0, getattr(curve.proposal, quantity), "q", colour or own)
    filtered = curve.projection
    rate_of = float(filtered.acceptance_rate.value)
    if rate_of < 0.99:
        mark(axes, rate_of, getattr(filtered, quantity), "q_proj", colour or own)


def mark(axes: Axes, rate: float, value: Any, kind: str, colour: str) -> None:
    """Draw one mark with its 95 % interval, where its value is known."""
    if value is None or not math.isfinite(float(value.value)):
        return
    (marker, size), y = MARKS[kind], float(value.value)
    axes.plot(rate, y, marker, color=colour, markersize=size, clip_on=False, zorder=5)
    low, high = float(value.low), float(value.high)
    if math.isfinite(low) and math.isfinite(high):
        axes.plot([rate, rate], [low, high], "-", color=colour, linewidth=1, clip_on=False)


Line = tuple[str, str, str]
"""Name, colour and style of a line in the key; a style such as "s" is a mark."""
NAMES = {
    "tvd": "TVD(p, p_β)",
    "truncated_mass": "1 - Z_β/Z",
    "tvd_bound": "1 - p(A_β)",
    "kl": "KL(p, p_β)",
    "kl_base": "KL(p_β, a)",
}


def lines_of(*quantities: str) -> list[Line]:
    """Return the lines of some quantities for the key."""
    return [(NAMES.get(name, name), *LINES[name]) for name in quantities]


def key(
    figure: Figure,
    lines: Sequence[Line],
    marks: Sequence[str] = ("q",),
    columns: int = 3,
    axes: Axes | None = None,
) -> None:
    """Draw one key, below all panels or in an empty one: lines by colour, marks in grey."""
    handles = [
        Line2D([], [], color=colour, label=name, markersize=5, **_look(style))
        for name, colour, style in lines
    ]
    for name in marks:
        marker, size = MARKS[name]
        handles.append(Line2D([], [], color=GREY, label=name, markersize=size, **_look(marker)))
    (figure if axes is None else axes).legend(
        handles=handles,
        loc="outside lower center" if axes is None else "center",
        ncols=columns,
        frameon=False,
        fontsize=FONT,
        handlelength=1.6,
    )


def _look(style: str) -> dict[str, str]:
    """Return what draws a line of a style, or a mark alone."""
    return {"linestyle": style} if style[0] in "-:" else {"marker": style, "linestyle": ""}
