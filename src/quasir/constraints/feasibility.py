"""Checks that constraints can be met. The errors give numbers, and come before any sampling."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from quasir.constraints.dual import separating_direction
from quasir.core.types import Array
from quasir.errors import InfeasibleError
from quasir.estimation.intervals import zero_hit_bound
from quasir.targets.feature import Feature

__all__ = ["contradiction", "must_be_enough", "must_be_inside", "must_fire"]

MIN_ESS = 100.0
"""With fewer effective draws, the standard error of a moment of 1/2 is above 0.05."""


def must_fire(feature: Feature, moment: float, asked: NDArray[np.bool_]) -> None:
    """Raise `InfeasibleError` if no draw meets a pointwise constraint."""
    if not asked.any():
        what = "fired for none" if moment == 1.0 else "fired for all"
        limit = zero_hit_bound(len(asked))
        raise InfeasibleError(
            f"feature {feature.name!r} {what} of {len(asked):,} draws, so none supports a moment "
            f"of {moment:g}: the probability of meeting it is below {limit:.2g} (97.5 %). "
            "Draw more (n=...), or draw from a proposal that meets it more often (proposal=...)."
        )


def must_be_inside(feature: Feature, moment: float, column: Array, boolean: bool, n: int) -> None:
    """Raise `InfeasibleError` for a moment outside the range of the draws, or on its edge."""
    low, high = float(column.min()), float(column.max())
    if low < moment < high:
        return
    where = f"{len(column):,} of {n:,} draws that are possible"
    if boolean and not 0 <= moment <= 1:
        raise InfeasibleError(
            f"feature {feature.name!r} is boolean: its moment is between 0 and 1, not {moment:g}."
        )
    if boolean and low == high:
        raise InfeasibleError(
            f"feature {feature.name!r} {'always' if low else 'never'} fires in the {where}: a "
            f"moment of {moment:g} cannot be reached by weighting them. Draw more, or draw from a "
            "proposal that shows both (proposal=...)."
        )
    if low == high:
        raise InfeasibleError(
            f"feature {feature.name!r} is {low:g} in all of the {where}: "
            f"its mean cannot be {moment:g}."
        )
    raise InfeasibleError(
        f"a moment of {moment:g} for feature {feature.name!r} is outside what was seen: in the "
        f"{where} it lies between {low:g} and {high:g}, and a mean must lie strictly inside."
    )


def contradiction(names: list[str], phi: Array, mu: Array) -> InfeasibleError:
    """Return the error for moments that no weighting of the draws has, with the reason."""
    moments = ", ".join(f"{name} = {value:g}" for name, value in zip(names, mu, strict=True))
    direction = separating_direction([(phi, np.empty(0))], mu)
    if direction is None:
        return InfeasibleError(
            f"no coefficients were found for the moments {moments}: they are too close to the edge "
            f"of the moments that weights on {len(phi):,} draws can give. Draw more, or ask for "
            "less."
        )
    most, needed = float((phi @ direction).max()), float(mu @ direction)
    combination = " + ".join(
        f"{d:.3g} {name}" for d, name in zip(direction, names, strict=True) if abs(d) > 1e-9
    ).replace("+ -", "- ")
    return InfeasibleError(
        f"the moments {moments} contradict each other: in all of {len(phi):,} draws that are "
        f"possible {combination} is at most {most:.4g}, but the constraint needs a mean of "
        f"{needed:.4g}, which is {'on' if most >= needed - 1e-9 else 'past'} that edge. Ask for "
        "moments that are possible together, or draw from a proposal that shows the missing "
        "combination (proposal=...)."
    )


def must_be_enough(ess: float, n: int) -> None:
    """Raise `InfeasibleError` if too few effective draws support the coefficients."""
    if ess >= MIN_ESS:
        return
    more = math.ceil(n * MIN_ESS / ess) - n
    raise InfeasibleError(
        f"{n:,} draws are worth only {ess:.3g} from the target (below {MIN_ESS:g}): too few to "
        f"trust its coefficients and moments. About {more:,} more draws are needed, or a proposal "
        "that meets the constraint more often (proposal=...)."
    )
