"""The page's curves, as panels of lines with 95 % bands against the acceptance rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quasir.certificates.figures import COLOURS
from quasir.estimation.estimate import Estimate
from quasir.estimation.quantities import QUANTITIES
from quasir.report.phrases import number_text, phrase

if TYPE_CHECKING:
    from quasir.certificates.certificate import Certificate
    from quasir.certificates.curve import Curve

__all__ = ["hues", "panels"]

Hue = tuple[int, bool]
"""The number of a colour, and whether the line is dashed because the colour is used before."""

PROMISED = 2
"""The number of the colour of promises."""

PANELS: dict[str, tuple[str, str, list[int | None]]] = {
    "tvd": (
        "Total variation distance",
        "How far the samples are from the target: 0 is exact, 1 is nothing in common.",
        [0, 1],
    ),
    "kl": (
        "KL divergence to the target",
        "How far the samples are from the target, in nats: 0 is exact.",
        [0, None],
    ),
    "moments": (
        "Features",
        "The mean of each feature over the samples; for a yes-or-no feature, the share with yes.",
        [0, None],
    ),
    "kl_base": (
        "KL divergence from the base",
        "How far the wish moves the samples away from the base model, in nats.",
        [0, None],
    ),
}
"""Panel -> title, note, and the lower and upper end of its vertical axis."""


def hues(names: Sequence[str]) -> dict[str, Hue]:
    """Return the colour of each feature.

    Examples
    --------
    >>> hues(["female", "science"])
    {'female': (1, False), 'science': (2, False)}
    """
    others = len(COLOURS) - 1
    return {name: (1 + j % others, j >= others) for j, name in enumerate(dict.fromkeys(names))}


def panels(curve: Curve, order: NDArray[np.intp], colours: dict[str, Hue]) -> list[dict[str, Any]]:
    """Return the panels, with points in the given order; none where no draw had P(x) > 0."""
    if not curve.n_possible:
        return []

    def line(name: str, part: Estimate, hue: Hue) -> dict[str, Any]:
        return _line(name, [part[i] for i in order], hue)

    drawn: dict[str, list[dict[str, Any]]] = {name: [] for name in PANELS}
    for key, part in curve.estimates.items():
        if isinstance(key, str) and (place := QUANTITIES[key].line) is not None:
            later = (0, bool(drawn[place.panel]))  # the second line of a panel is dashed
            drawn[place.panel].append(line(place.label, part, later))
    for name in ("tvd", "kl"):
        if (most := getattr(curve.promises, name)) is not None:
            drawn[name].append(_promised([float(most[i]) for i in order]))
    moments = [line(name, part, colours[name]) for name, part in curve.moments.items()]
    shares = [one for one in moments if all(v is None or 0 <= v <= 1 for v in one["value"])]
    out = []
    for name, (title, note, ends) in PANELS.items():
        if name == "moments":
            if shares:
                out.append(_panel(title, note, shares, range=ends))
            for one in moments:
                if one not in shares:
                    out.append(
                        _panel(f"Feature {one['name']}", "Its mean over the samples.", [one])
                    )
        elif drawn[name]:
            out.append(_panel(title, note, drawn[name], range=ends))
    out[0]["points"] = [_start("q", curve.proposal), _start("q_proj", curve.projection)]
    return out


def _panel(title: str, note: str, lines: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "title": title,
        "note": note,
        "lines": lines,
        "range": [None, None],
        "points": [],
    } | more


def _line(name: str, parts: list[Estimate], hue: Hue) -> dict[str, Any]:
    said = [phrase(part) for part in parts]
    colour, dashed = hue
    return {
        "name": name,
        "colour": colour,
        "dashed": dashed,
        "value": [_known(part) for part in parts],
        "low": [_short(part.low) for part in parts],
        "high": [_short(part.high) for part in parts],
        "main": [one.main for one in said],
        "rest": [one.rest for one in said],
    }


def _promised(most: list[float]) -> dict[str, Any]:
    """Return the line of a promise: an upper bound, which has no band."""
    return {
        "name": "promised (95 %)",
        "colour": PROMISED,
        "dashed": False,
        "value": [_short(bound) for bound in most],
        "low": [None] * len(most),
        "high": [None] * len(most),
        "main": [f"at most {number_text(bound)}" for bound in most],
        "rest": [""] * len(most),
    }


def _start(name: str, certificate: Certificate) -> dict[str, Any]:
    """Return the point of a proposal before any rejection."""
    tvd, rate = certificate.tvd, certificate.acceptance_rate
    ends = {"low": _short(tvd.low), "high": _short(tvd.high)}
    return {"name": name, "rate": _short(rate.value), "value": _known(tvd), **ends}


def _known(part: Estimate) -> float | None:
    """Return the value, or None where it is unknown: without a standard error, 0 is no estimate."""
    return None if math.isnan(part.se) else _short(part.value)


def _short(x: float) -> float | None:
    """Return a number with five digits, which is more than a screen shows; None if not finite."""
    return float(f"{x:.5g}") if math.isfinite(x) else None
