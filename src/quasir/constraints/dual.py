"""The convex dual of moment matching: lambda by a safeguarded Newton's method.

Among the distributions with given means of phi, the one closest to the base in KL is
p(x) ~ a(x) exp(lambda . phi(x)), and lambda minimises the convex function

    log E_a[exp(lambda . (phi(x) - mu))],

whose gradient is the moment error and whose Hessian is the covariance of phi under p. Draws
with weights a(x)/q(x) stand in for the expectation (self-normalised importance sampling).
"""

from __future__ import annotations

import numpy as np

from quasir.core.types import Array

__all__ = ["separating_direction", "solve"]

MOMENT_ERROR = 1e-8
"""Largest error of the moments on the draws, in units of the feature."""
STEPS = 100
FAR = 200.0
"""A tilt of e^200 for one standard deviation means that the minimum is at infinity."""
SUSPECT = 6.0
"""Above a tilt of e^6, the moments may be on the edge of the hull, and met only in the limit."""


def solve(phi: Array, log_weight: Array, mu: Array) -> tuple[Array, Array] | None:
    """Return lambda and the normalised weights of the tilted draws, or None if no minimum exists.

    Parameters
    ----------
    phi : array (n, k)
        The features of the draws.
    log_weight : array (n,)
        Log weights of the draws under the base.
    mu : array (k,)
        The wished means.
    """
    weight = _normalised(log_weight)
    scale = np.sqrt(weight @ (phi - weight @ phi) ** 2)
    a = (phi - mu) / scale
    enough = 0.01 * MOMENT_ERROR / max(1.0, float(scale.max()))

    def value(coefficients: Array) -> float:
        exponent = log_weight + a @ coefficients
        top = exponent.max()
        return float(top + np.log(np.exp(exponent - top).sum()))

    coefficients = np.zeros(phi.shape[1])
    current = value(coefficients)
    for _ in range(STEPS):
        weight = _normalised(log_weight + a @ coefficients)
        gradient = weight @ a
        if np.abs(gradient).max() <= enough:
            break
        hessian = (a * weight[:, None]).T @ a - np.outer(gradient, gradient)
        # Close to the edge of the hull the covariance is singular; a ridge keeps the step finite.
        ridge = 1e-12 * max(1.0, float(np.trace(hessian)))
        step = -np.linalg.solve(hessian + ridge * np.eye(len(gradient)), gradient)
        slope, length = float(gradient @ step), 1.0
        while length > 1e-10:
            tried = value(coefficients + length * step)
            if tried <= current + 1e-4 * length * slope:
                break
            length /= 2
        else:
            break  # rounding allows no further descent
        coefficients, current = coefficients + length * step, tried
        if np.abs(coefficients).max() > FAR:
            return None
    weight = _normalised(log_weight + a @ coefficients)
    if np.abs((weight @ a) * scale).max() > MOMENT_ERROR:
        return None
    if np.abs(coefficients).max() > SUSPECT and separating_direction(phi, mu) is not None:
        return None
    return coefficients / scale, weight


def separating_direction(phi: Array, mu: Array) -> Array | None:
    """Return d with d . phi <= d . mu for every draw and < for some, or None.

    Such a d shows that no distribution that gives every draw a positive weight has the means mu:
    they lie outside the convex hull of the features, or on its edge.
    """
    from scipy.optimize import linprog  # takes 0.2 s, and is needed only for a message

    rows = np.unique(phi, axis=0) - mu
    scale = np.abs(rows).max(axis=0)
    rows = rows / np.where(scale > 0, scale, 1.0)
    result = linprog(
        rows.sum(axis=0), A_ub=rows, b_ub=np.zeros(len(rows)), bounds=[(-1, 1)] * phi.shape[1]
    )
    if not result.success or result.fun > -1e-9:
        return None
    direction: Array = result.x / np.where(scale > 0, scale, 1.0)
    direction /= np.abs(direction).max()
    return direction


def _normalised(log_weight: Array) -> Array:
    weight: Array = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    return weight
