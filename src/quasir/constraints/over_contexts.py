"""One lambda for many contexts: the mean over contexts of a moment is as wished.

The target of context c is p_c(x) ~ a(x | c) exp(lambda . phi(x)), each with its own normaliser (the
conditional form of the paper's EBMs). The wish is mean_c E_{p_c}[phi] = mu. lambda minimises the
mean of the contexts' duals,

    mean_c log E_{a(. | c)}[exp(lambda . (phi(x) - mu))],

which is convex: its gradient is the mean of the moment errors, its Hessian the mean of the
covariances of phi under p_c.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quasir.core.types import Array

__all__ = ["solve_over"]

MOMENT_ERROR = 1e-8
STEPS = 100
ROUNDING = 1e-14
"""What rounding may add to the dual, so that it does not stop the last steps."""
FAR = 200.0
"""A tilt of e^200 for one standard deviation means that the minimum is at infinity."""


def solve_over(
    groups: Sequence[tuple[Array, Array]], mu: Array
) -> tuple[Array, list[Array]] | None:
    """Return lambda and the normalised weights of each context's draws, or None if there is none.

    Parameters
    ----------
    groups : sequence of (phi, log_weight)
        For each context, the features of its draws (n, k), and their log weights under its base.
    mu : array (k,)
        The wished means over all contexts.

    Examples
    --------
    >>> rare, common = np.eye(4)[:, :1], 1 - np.eye(4)[:, :1]
    >>> solved = solve_over([(rare, np.zeros(4)), (common, np.zeros(4))], np.array([0.7]))
    >>> weights = solved[1]
    >>> round(float(weights[0] @ rare[:, 0] + weights[1] @ common[:, 0]) / 2, 6)
    0.7
    """
    k = len(groups)
    plain = [_normalised(log_weight) for _, log_weight in groups]
    moments = [w @ phi for w, (phi, _) in zip(plain, groups, strict=True)]
    centre = np.mean(moments, axis=0)
    spread = [w @ (phi - centre) ** 2 for w, (phi, _) in zip(plain, groups, strict=True)]
    scale = np.sqrt(np.mean(spread, axis=0))
    if not (scale > 0).all():
        return None
    # With normalised weights the dual is near 0, and rounding is small beside its last steps.
    parts = [((phi - mu) / scale, np.log(w)) for w, (phi, _) in zip(plain, groups, strict=True)]
    enough = 0.01 * MOMENT_ERROR / max(1.0, float(scale.max()))

    def value(coefficients: Array) -> float:
        return sum(float(np.logaddexp.reduce(w + a @ coefficients)) for a, w in parts) / k

    coefficients = np.zeros(len(mu))
    current = value(coefficients)
    for _ in range(STEPS):
        gradient, hessian = _slopes(parts, coefficients)
        if np.abs(gradient).max() <= enough:
            break
        ridge = 1e-12 * max(1.0, float(np.trace(hessian)))
        step = -np.linalg.solve(hessian + ridge * np.eye(len(mu)), gradient)
        slope, length = float(gradient @ step), 1.0
        while length > 1e-10:
            tried = value(coefficients + length * step)
            if tried <= current + 1e-4 * length * slope + ROUNDING:
                break
            length /= 2
        else:
            break  # rounding allows no further descent
        coefficients, current = coefficients + length * step, tried
        if np.abs(coefficients).max() > FAR:
            return None
    gradient, _ = _slopes(parts, coefficients)
    if np.abs(gradient * scale).max() > MOMENT_ERROR:
        return None
    weights = [_normalised(w + a @ coefficients) for a, w in parts]
    return coefficients / scale, weights


def _slopes(parts: Sequence[tuple[Array, Array]], coefficients: Array) -> tuple[Array, Array]:
    """Return the mean gradient and the mean Hessian."""
    gradient = np.zeros(len(coefficients))
    hessian = np.zeros((len(coefficients), len(coefficients)))
    for a, log_weight in parts:
        weight = _normalised(log_weight + a @ coefficients)
        own = weight @ a
        gradient += own
        hessian += (a * weight[:, None]).T @ a - np.outer(own, own)
    return gradient / len(parts), hessian / len(parts)


def _normalised(log_weight: Array) -> Array:
    weight: Array = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    return weight
