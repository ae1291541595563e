"""Cells around a level: draws on a few hundred points, the same relative to every level.

The bets of many levels are then one array. The draws are spread on the edges of the cells as on
those of bins (`quasir.estimation.spread`), so what they show is shown by the draws themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quasir.core.types import Array

__all__ = ["Cells", "cells_of"]

BELOW, PER_NAT = 8, 16
"""Cells below a level: 16 to the nat for 8 nats, then one down to w = 0.

Below a level the bets are straight in w, so that a cell of width d adds about d^2/12 of the
variance: 1 in 3,000.
"""
ABOVE = 128
"""Cells between a level and the largest ratio, evenly in log w."""


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Draws spread on cells that are the same relative to each of Q levels.

    Attributes
    ----------
    log_w : array (Q, A)
        The log of w/level at the edges of the cells; -inf in the first column, where w = 0.
    weights : array (Q, A)
        Draws on each edge.
    """

    log_w: Array
    weights: Array

    @property
    def w(self) -> Array:
        """The ratios in units of their level."""
        return np.exp(self.log_w)


def cells_of(t: Array, weights: Array, zeros: float, rise: Array | None = None) -> Cells:
    """Spread draws on the edges of cells.

    Parameters
    ----------
    t : array (Q, P)
        The log of w/level of each draw, for each of Q levels.
    weights : array (Q, P)
        How many draws there are of each.
    zeros : float
        Draws with w = 0.
    rise : array (Q,), optional
        The log of the largest ratio/level; without it no draw may lie above its level.

    Examples
    --------
    >>> cells = cells_of(np.log([[0.5, 0.9]]), np.array([[10.0, 1.0]]), zeros=3.0)
    >>> cells.weights.sum(), (cells.w * cells.weights).sum().round(6)
    (np.float64(14.0), np.float64(5.9))
    """
    levels, lowest = len(t), BELOW * PER_NAT
    below = np.concatenate([[-np.inf], np.arange(-lowest, 1) / PER_NAT])
    edges = np.broadcast_to(below, (levels, len(below)))
    cell = np.maximum(np.floor(t * PER_NAT).astype(np.int64) + lowest + 1, 0)
    if rise is not None:
        steps = rise[:, None] / ABOVE
        edges = np.concatenate([edges, np.arange(1, ABOVE + 1) * steps], axis=1)
        cell = np.where(t >= 0, lowest + 1 + np.floor(t / steps).astype(np.int64), cell)
    size = edges.shape[1]
    cell = np.minimum(cell, size - 2)
    low, high = (np.take_along_axis(edges, cell + up, axis=1) for up in (0, 1))
    # The share s with w = (1 - s) low + s high.
    share = np.clip((np.exp(t - high) - np.exp(low - high)) / -np.expm1(low - high), 0.0, 1.0)
    flat = (cell + np.arange(levels)[:, None] * size).ravel()
    on_high = weights * share
    held: Array = np.zeros(levels * size)
    held += np.bincount(flat, (weights - on_high).ravel(), levels * size)
    held += np.bincount(flat + 1, on_high.ravel(), levels * size)
    held = held.reshape(levels, size)
    held[:, 0] += zeros
    return Cells(log_w=edges, weights=held)
