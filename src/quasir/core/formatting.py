"""Numbers as text, where a plain format is not enough."""

from __future__ import annotations

import math

__all__ = ["level_text", "tail_text"]


def level_text(log_x: float) -> str:
    """Return e^log_x as text, even if it is outside a float's range.

    Examples
    --------
    >>> level_text(0.0), level_text(800.0)
    ('1', 'e^800')
    """
    return f"{math.exp(log_x):.4g}" if -690 < log_x < 700 else f"e^{log_x:.6g}"


def tail_text(k: float) -> str:
    """Return Pareto k as text.

    Examples
    --------
    >>> tail_text(0.3), tail_text(-math.inf)
    ('Pareto k 0.30', 'largest ratios all equal')
    """
    if math.isnan(k):
        return "Pareto k unknown"
    return "largest ratios all equal" if k == -math.inf else f"Pareto k {k:.2f}"
