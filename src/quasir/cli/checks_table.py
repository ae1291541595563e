"""The table of checks in the terminal."""

from __future__ import annotations

import math

from quasir.runs import Sampled
from quasir.runs.sampling import doubts_of

__all__ = ["show_checks"]


def show_checks(sampled: Sampled) -> str:
    """Return the samples' moments and the predicted ones as a table, in 80 columns."""
    samples = sampled.samples
    lines = [
        f"{len(samples):,} samples from the first {samples.proposals:,} draws"
        + (":" if sampled.checks else "")
    ]
    if sampled.checks:
        lines.append(f"  {'moment of':<20} {'on the samples':>20} {'predicted':>20} {'z':>6}")
    for check in sampled.checks:
        z = f"{check.z:.1f}" if math.isfinite(check.z) else "-"
        seen = _with_error(check.observed, check.observed_se)
        predicted = _with_error(check.predicted, check.predicted_se)
        lines.append(f"  {check.name[:20]:<20} {seen:>20} {predicted:>20} {z:>6}")
    lines += [f"  ! {doubt}" for doubt in doubts_of(sampled.checks)]
    return "\n".join(lines)


def _with_error(value: float, error: float) -> str:
    return f"{value:.4g} ± {error:.2g}" if math.isfinite(error) else f"{value:.4g}"
