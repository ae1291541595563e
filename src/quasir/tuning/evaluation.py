"""The distance between policy and target on held-out draws: estimates, their log, their figure.

All estimates use importance sampling from the mixture m of the proposals: w = p/m, v = pi/m. None
uses draws that were trained on: a proposal fitted to them makes their P/m too small.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quasir.certificates.figures import COLOURS, draw_band
from quasir.core.files import write_text
from quasir.core.types import Array
from quasir.estimation.estimate import Z95, Estimate, kish_ess
from quasir.tuning.rounds import Pool

__all__ = ["Evaluation", "evaluate"]

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Estimates for the policy pi at one step; ``possible`` is its mass on P(x) > 0.

    `efficiency` is the effective sample size per draw of pi as a proposal, 1/E_p[p/pi].
    """

    kl: Estimate
    tvd: Estimate
    log_z: Estimate
    moments: dict[str, Estimate]
    ess: float
    efficiency: float

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary; values that are not finite are None."""
        return {name: getattr(self, name).to_dict() for name in ("kl", "tvd", "log_z")} | {
            "moments": {name: part.to_dict() for name, part in self.moments.items()},
            "ess": self.ess,
            "efficiency": self.efficiency if math.isfinite(self.efficiency) else None,
        }


def evaluate(held_out: Pool, log_pi: Array) -> Evaluation:
    """Estimate KL(p, pi), TVD(p, pi), Z and the moments of pi from held-out draws.

    Standard errors are by the delta method: a draw influences an estimate by its own term and by
    its part in Z. Draws of different proposals count as draws of their mixture.
    """
    n, kept = held_out.n, held_out.possible
    times = held_out.stands_for[kept]
    log_z = held_out.log_z
    log_w, log_v = held_out.log_weight[kept] - log_z, (log_pi - held_out.log_m)[kept]
    w, v = np.exp(log_w), np.exp(log_v)
    kl = float(times @ (w * (log_w - log_v)) / n)
    kl_se = _standard_error(w * (log_w - log_v - kl) - (w - 1.0), 1.0, times, n)
    gap = np.maximum(w - v, 0.0)
    tvd = float(times @ gap / n)
    through_z = -float(times @ (w * (w > v)) / n)
    tvd_se = _standard_error(gap - tvd + through_z * (w - 1.0), -tvd - through_z, times, n)
    with np.errstate(over="ignore"):
        # E_p[p/pi]: the mean square of the ratios p/pi of draws from pi, whose mean is 1.
        second = float(times @ np.exp(2 * log_w - log_v) / n)
    return Evaluation(
        kl=_estimate(kl, kl_se),
        tvd=_estimate(min(tvd, 1.0), tvd_se, least=0.0, most=1.0),
        log_z=_estimate(log_z, _standard_error(w - 1.0, -1.0, times, n)),
        moments=_moments(held_out, log_pi),
        ess=kish_ess(n, float(times @ w**2)),
        efficiency=1.0 / second,
    )


def better_by(held_out: Pool, new: Array, old: Array) -> Estimate:
    """Return by how many nats KL(p, pi) is lower for a new log pi than for an old one."""
    n, kept = held_out.n, held_out.possible
    times = held_out.stands_for[kept]
    w = np.exp(held_out.log_weight[kept] - held_out.log_z)
    gain = new[kept] - old[kept]
    value = float(times @ (w * gain) / n)
    if math.isinf(value):  # the old one cannot draw a text that the target allows
        return Estimate(value, 0.0, value, value)
    return _estimate(value, _standard_error(w * (gain - value), 0.0, times, n))


def _standard_error(influence: Array, impossible: float, times: Array, n: int) -> float:
    """Return the standard error of a mean of n influences; impossible draws all have the same."""
    squares = float(times @ influence**2) + (n - float(times.sum())) * impossible**2
    return math.sqrt(squares) / n


def _moments(held_out: Pool, log_pi: Array) -> dict[str, Estimate]:
    share = held_out.stands_for * np.exp(log_pi - held_out.log_m)
    share = share / share.sum()
    columns = {"possible": held_out.possible} | held_out.features
    moments = {}
    for name, column in columns.items():
        phi = column.astype(np.float64)
        if np.isfinite(phi).all():
            mean = float(share @ phi)
            moments[name] = _estimate(mean, math.sqrt(float(share**2 @ (phi - mean) ** 2)))
    return moments


def _estimate(
    value: float, se: float, least: float = -math.inf, most: float = math.inf
) -> Estimate:
    return Estimate(value, se, max(value - Z95 * se, least), min(value + Z95 * se, most))


class Log:
    """Writes each evaluation as soon as it is made, and keeps them as `rows`."""

    def __init__(self, out: Path | None, progress: bool) -> None:
        self.path = None if out is None else out / "log.jsonl"
        self.progress = progress
        self.rows: list[dict[str, Any]] = []

    def restore(self, lines: int) -> None:
        """Keep only the first lines of the file; the steps of later ones will be taken again."""
        if self.path is None:
            return
        kept = self.path.read_text().splitlines()[:lines] if self.path.is_file() else []
        self.rows = [json.loads(line) for line in kept]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_text(self.path, "".join(line + "\n" for line in kept))

    def write(self, evaluation: Evaluation, **facts: Any) -> None:
        row = {**facts, **evaluation.to_dict()}
        self.rows.append(row)
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(row) + "\n")
        if self.progress:
            print(format_row(row), file=sys.stderr, flush=True)


def format_row(row: dict[str, Any]) -> str:
    def shown(part: dict[str, Any]) -> str:
        error = "" if part["se"] is None else f" ± {part['se']:.4f}"
        return "unknown" if part["value"] is None else f"{part['value']:.4f}{error}"

    moments = "  ".join(
        f"{name} {part['value']:.3f}" for name, part in row["moments"].items() if part["value"]
    )
    return (
        f"step {row['step']:>5}  round {row['round']:>2}  "
        f"KL {shown(row['kl'])}  TVD {shown(row['tvd'])}  {moments}  "
        f"Z {math.exp(min(row['log_z']['value'], 700.0)):.4g}  ESS {row['ess']:,.0f}  "
        f"{row['samples_per_second']:,.0f} samples/s{'  *' if row['best'] else ''}"
    )


def plot_learning(rows: list[dict[str, Any]]) -> Figure:
    from matplotlib.figure import Figure

    def column(parts: list[dict[str, Any]]) -> Estimate:
        """Return estimates as one of arrays, with NaN for values that were not finite."""
        ends = ("value", "se", "low", "high")
        rows = [[np.nan if part[end] is None else part[end] for end in ends] for part in parts]
        return Estimate(*np.array(rows).T)

    figure = Figure(figsize=(12.4, 2.9), layout="constrained")
    steps = np.array([row["step"] for row in rows])
    moments = {name: [row["moments"][name] for row in rows] for name in rows[0]["moments"]}
    panels = {
        "KL(p, π), nats": {"kl": [row["kl"] for row in rows]},
        "TVD(p, π)": {"tvd": [row["tvd"] for row in rows]},
        "Moments of π": moments,
    }
    axes = figure.subplots(1, 4)
    for axis, (label, lines) in zip(axes, panels.items(), strict=False):
        for (name, parts), colour in zip(lines.items(), COLOURS * 9, strict=False):
            draw_band(axis, steps, column(parts), name, colour)
        axis.set_ylabel(label)
    axes[2].legend(frameon=False, fontsize="small", loc="best")
    axes[3].plot(steps, [row["efficiency"] or np.nan for row in rows], color=COLOURS[0])
    axes[3].set_ylabel("Effective draws per draw from π")
    for axis in axes:
        axis.set_xlabel("Step")
        axis.grid(alpha=0.25)
        # A dashed line marks each round of new draws.
        for row in rows:
            if row["event"] == "round" and row["step"]:
                axis.axvline(row["step"], color="grey", linewidth=0.5, linestyle="--")
    return figure
