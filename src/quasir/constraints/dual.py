"""The convex dual of moment matching: lambda by a damped Newton's method.

Lambda minimises mean_c log E_{a(. | c)}[exp(lambda . (phi(x) - mu))] over contexts c. Its gradient
is the mean moment error, its Hessian the mean covariance of phi under p_c. Draws with weights
a(x)/q(x) stand in for the expectations. Where there is no lambda, the errors say why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array
from quasir.errors import InfeasibleError
from quasir.estimation.intervals import zero_hit_bound
from quasir.targets.feature import Feature

Groups = Sequence[tuple[Array, Array]]
"""For each context the features of its draws (n, k), and their log weights under its base."""

MOMENT_ERROR = 1e-8  # largest error of the moments on the draws, in units of the feature
SMALLEST_ERROR = 1e-13
"""The error that rounding leaves, as a share of a feature's largest distance from its moment."""
STEPS = 200
GAIN = 0.1  # a step is taken if the dual falls by this share of what its quadratic model predicts
FAR = 200.0  # a tilt of e^200 for one standard deviation means that the minimum is at infinity
STILL_MOVING = 1e-3
"""At a minimum the next Newton step is 0; on an edge of the hull it shifts log weights by 1."""
MIN_ESS = 100.0  # with fewer effective draws, the standard error of a moment of 1/2 is above 0.05


def solve(groups: Groups, mu: Array) -> tuple[Array, list[Array]] | None:
    """Return lambda and normalised weights of each context's draws, or None."""
    plain = [np.exp(log_weight - _log_sum(log_weight)) for _, log_weight in groups]
    centre = np.mean([w @ phi for w, (phi, _) in zip(plain, groups, strict=True)], axis=0)
    spread = [w @ (phi - centre) ** 2 for w, (phi, _) in zip(plain, groups, strict=True)]
    scale = np.sqrt(np.mean(spread, axis=0))
    if not (scale > 0).all():
        return None
    # With normalised weights the dual is near 0, and rounding is small beside its last steps.
    parts = [((phi - mu) / scale, log_weight - _log_sum(log_weight)) for phi, log_weight in groups]
    reach = np.max([np.abs(a).max(axis=0) for a, _ in parts], axis=0)
    enough = np.maximum(0.01 * MOMENT_ERROR / max(1.0, scale.max()), SMALLEST_ERROR * reach)
    coefficients = np.zeros(len(mu))
    current = _value(parts, coefficients)
    for _ in range(STEPS):
        gradient, hessian = _slopes(parts, coefficients)
        if (np.abs(gradient) <= enough).all():
            break
        rounding = 1e-15 * (1 + float(reach @ np.abs(coefficients)))
        damping = _least_damping(hessian)
        while damping < 1e12:
            step = _newton_step(gradient, hessian, damping)
            predicted = -float(gradient @ step + step @ hessian @ step / 2)
            tried = _value(parts, coefficients + step)
            if current - tried >= GAIN * predicted - rounding:
                break
            # The model fails so far out: a shorter step, turned towards the steepest descent.
            damping = max(10 * damping, 1e-3 * float(np.abs(gradient).max()))
        else:
            break  # rounding allows no further descent
        coefficients, current = coefficients + step, tried
        if np.abs(coefficients).max() > FAR:
            return None
    gradient, hessian = _slopes(parts, coefficients)
    if (np.abs(gradient) > np.maximum(MOMENT_ERROR / scale, 100 * enough)).any():
        return None
    step = _newton_step(gradient, hessian, _least_damping(hessian))
    if reach @ np.abs(step) > STILL_MOVING and separating_direction(groups, mu) is not None:
        return None
    tilted = [log_weight + a @ coefficients for a, log_weight in parts]
    return coefficients / scale, [np.exp(t - _log_sum(t)) for t in tilted]


def separating_direction(groups: Groups, mu: Array) -> Array | None:
    """Return d with mu at or past the largest mean of d . phi that weights give, or None."""
    from scipy.optimize import linprog  # takes 0.2 s, and is needed only for a message
    from scipy.sparse import csr_array, hstack, vstack

    # d . (phi - mu) <= t_c for every draw of context c, and the t_c add up to at most 0; the draws
    # and the sum of the t_c are to fall short of that by as much as they can.
    rows = [np.unique(phi, axis=0) - mu for phi, _ in groups]
    own = np.repeat(np.arange(len(rows)), [len(part) for part in rows])
    every = np.concatenate(rows)
    scale = np.abs(every).max(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    every = every / scale
    tops = csr_array((-np.ones(len(own)), (np.arange(len(own)), own)))
    total = csr_array(np.concatenate([np.zeros(len(mu)), np.ones(len(rows))])[None])
    result = linprog(
        np.concatenate([every.sum(axis=0), 1.0 - np.bincount(own)]),
        A_ub=vstack([hstack([csr_array(every), tops]), total]),
        b_ub=np.zeros(len(every) + 1),
        bounds=[(-1, 1)] * len(mu) + [(None, None)] * len(rows),
    )
    if not result.success or result.fun > -1e-9:
        return None
    direction: Array = result.x[: len(mu)] / scale
    direction /= np.abs(direction).max()
    return direction


def _value(parts: Groups, coefficients: Array) -> float:
    logs = [_log_sum(log_weight + a @ coefficients) for a, log_weight in parts]
    return sum(logs) / len(logs)


def _slopes(parts: Groups, coefficients: Array) -> tuple[Array, Array]:
    """Return the mean gradient and the mean Hessian."""
    gradient = np.zeros(len(coefficients))
    hessian = np.zeros((len(coefficients), len(coefficients)))
    for a, log_weight in parts:
        tilted = log_weight + a @ coefficients
        weight = np.exp(tilted - _log_sum(tilted))
        own = weight @ a
        gradient += own
        hessian += (a * weight[:, None]).T @ a - np.outer(own, own)
    return gradient / len(parts), hessian / len(parts)


def _newton_step(gradient: Array, hessian: Array, damping: float) -> Array:
    ascent: NDArray[Any] = np.linalg.solve(hessian + damping * np.eye(len(gradient)), gradient)
    return -ascent


def _least_damping(hessian: Array) -> float:
    # It keeps the step finite where the covariance is singular.
    return 1e-12 * max(1.0, float(np.trace(hessian)))


def _log_sum(exponents: Array) -> float:
    top = exponents.max()
    return float(top + np.log(np.exp(exponents - top).sum()))


def must_fire(feature: Feature, moment: float, asked: NDArray[np.bool_]) -> None:
    """Raise `InfeasibleError` if no draw meets a pointwise constraint."""
    if not asked.any():
        what = "fired for none" if moment == 1.0 else "fired for all"
        limit = zero_hit_bound(len(asked))
        raise InfeasibleError(
            f"feature {feature.name!r} {what} of {len(asked):,} draws: the probability of meeting "
            f"a moment of {moment:g} is below {limit:.2g} (97.5 %). Draw more (n=...), or draw "
            "from a proposal that meets it more often (proposal=...)."
        )


def must_be_inside(feature: Feature, moment: float, column: Array, boolean: bool, n: int) -> None:
    """Raise `InfeasibleError` for a moment outside the range of the draws, or on its edge."""
    low, high = float(column.min()), float(column.max())
    if low < moment < high:
        return
    where = f"the {len(column):,} of {n:,} draws that are possible"
    if boolean and not 0 <= moment <= 1:
        why = f"is boolean: its moment is between 0 and 1, not {moment:g}"
    elif boolean and low == high:
        why = (
            f"{'always' if low else 'never'} fires in {where}: its mean cannot be {moment:g}. Draw "
            "more, or draw from a proposal that shows both (proposal=...)"
        )
    elif low == high:
        why = f"is {low:g} in all of {where}: its mean cannot be {moment:g}"
    else:
        why = (
            f"cannot have the mean {moment:g}, which is outside what was seen: in {where} it lies "
            f"between {low:g} and {high:g}, and a mean must lie strictly inside"
        )
    raise InfeasibleError(f"feature {feature.name!r} {why}.")


def contradiction(names: list[str], phi: Array, mu: Array) -> InfeasibleError:
    """Return the error for moments that no weighting of the draws has, with the reason."""
    moments = ", ".join(f"{name} = {value:g}" for name, value in zip(names, mu, strict=True))
    direction = separating_direction([(phi, np.empty(0))], mu)
    if direction is None:
        return InfeasibleError(
            f"no coefficients were found for the moments {moments}: they are too close to the edge "
            f"of what weights on {len(phi):,} draws can give. Draw more, or ask for less."
        )
    most, needed = float((phi @ direction).max()), float(mu @ direction)
    combination = " + ".join(
        f"{d:.3g} {name}" for d, name in zip(direction, names, strict=True) if abs(d) > 1e-9
    ).replace("+ -", "- ")
    return InfeasibleError(
        f"the moments {moments} contradict each other: in all of {len(phi):,} draws that are "
        f"possible {combination} is at most {most:.4g}, but the constraint needs a mean of "
        f"{needed:.4g}, which is {'on' if most >= needed - 1e-9 else 'past'} that edge. Ask for "
        "less, or draw from a proposal that shows the missing combination (proposal=...)."
    )


def must_be_enough(ess: float, n: int) -> None:
    """Raise `InfeasibleError` if too few effective draws support the coefficients."""
    if ess < MIN_ESS:
        more = math.ceil(n * MIN_ESS / ess) - n
        raise InfeasibleError(
            f"{n:,} draws are worth only {ess:.3g} from the target (below {MIN_ESS:g}): too few to "
            f"trust its coefficients and moments. About {more:,} more draws are needed, or a "
            "proposal that meets the constraint more often (proposal=...)."
        )
