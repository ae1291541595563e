"""The choice of beta by a wish: by an estimate, or by a promise that holds for the choice."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from quasir.certificates.certificate import Certificate
from quasir.certificates.cost import cost_of
from quasir.certificates.evaluator import Evaluator
from quasir.certificates.limits import projection_of
from quasir.certificates.search import (
    ENOUGH_ABOVE,
    largest_accepting,
    smallest_meeting,
    what_it_takes,
)
from quasir.core.formatting import level_text
from quasir.errors import InputError, UnreachableError
from quasir.estimation.estimate import Estimate
from quasir.estimation.promise import BOUNDS, promised_level

__all__ = ["certificate_at", "chosen_by_estimate", "chosen_by_promise"]

FAR_BELOW = 50.0
"""Nats below the smallest ratio, where p_beta no longer changes."""
FIXED_BEFOREHAND = (
    "The draws chose this beta, and this promise is for a beta that was fixed beforehand: give a "
    "confidence with the wish, and the choice itself is promised."
)
ADVICE = "Use a proposal closer to the target, or relax the wish."


def certificate_at(
    evaluator: Evaluator, log_beta: float, confidence: float = 0.95, *, chosen: bool = False
) -> Certificate:
    """Return the certificate at the level nearest to log_beta.

    Parameters
    ----------
    evaluator : Evaluator
    log_beta : float
    confidence : float
        That of its promise.
    chosen : bool
        Whether an estimate on these draws chose the level.
    """
    level = evaluator.ratios.snap(np.array([log_beta]))
    promise = evaluator.promises(level, confidence)[0]
    return evaluator.certificate(evaluator.points(level), promise=promise, chosen=chosen)


def chosen_by_promise(
    evaluator: Evaluator, name: str, wanted: float, confidence: float
) -> Certificate:
    """Return the certificate at the least beta at which the wish is promised.

    Raises
    ------
    UnreachableError
        If it is promised at no beta.
    """
    if name not in BOUNDS:
        raise InputError(
            f"{name} cannot be promised: with confidence, ask for {' or '.join(BOUNDS)}."
        )
    ground = evaluator.ground(confidence)
    found = promised_level(evaluator.spread, name, wanted, ground, confidence=confidence)
    if found is not None:
        found = max(found, evaluator.ratios.level(0) - FAR_BELOW)
        level = float(evaluator.ratios.snap(np.array([found]), np.ceil)[0])
        return certificate_at(evaluator, level, confidence)
    top = certificate_at(evaluator, evaluator.ratios.log_max, confidence)
    best = None if top.promise is None else getattr(top.promise, name)
    if best is None:
        why = "KL needs a ceiling of the ratios." if ground.solid else ground.basis
        said = f"{why} Without a confidence, the estimate decides"
    else:
        said = (
            f"the best is {best:.3g}, at beta = {level_text(top.log_beta)} and acceptance rate "
            f"{top.acceptance_rate.value:.3g}. {ground.basis} Draw more"
        )
    raise UnreachableError(
        f"{name} = {wanted:g} cannot be promised at confidence {confidence:g}: {said}.", top
    )


def chosen_by_estimate(
    evaluator: Evaluator, name: str, wanted: float, confidence: float
) -> Certificate:
    """Return the certificate at the beta whose estimate meets the wish at the lowest cost.

    Raises
    ------
    UnreachableError
        If no beta within reach of the draws meets it.
    """
    ratios = evaluator.ratios
    if name == "acceptance_rate":
        found = largest_accepting(ratios, wanted)
    elif wanted == 0 and evaluator.tail.log_ceiling < math.inf:
        return certificate_at(evaluator, _ceiling(evaluator), confidence)
    else:
        found = smallest_meeting(ratios, lambda b: evaluator.values(name, b), wanted)
    if found is None:
        raise _unreachable(evaluator, name, wanted)
    made = certificate_at(evaluator, found, confidence, chosen=name != "acceptance_rate")
    assert made.promise is not None
    noted = replace(made.promise, basis=f"{made.promise.basis} {FIXED_BEFOREHAND}")
    if name == "acceptance_rate":
        return replace(made, promise=noted)
    cost = cost_of(evaluator, name, wanted, made.acceptance_rate.value)
    return replace(made, promise=noted, cost=(f"{name} = {wanted:g}", cost))


def _ceiling(evaluator: Evaluator) -> float:
    """Return the lowest level that no ratio exceeds."""
    return float(evaluator.ratios.snap(np.array([evaluator.tail.log_ceiling]), np.ceil)[0])


def _unreachable(evaluator: Evaluator, name: str, wanted: float) -> UnreachableError:
    ratios, n, possible = evaluator.ratios, evaluator.n, evaluator.n_possible
    if name == "acceptance_rate":
        best = projection_of(evaluator)
        return UnreachableError(
            f"acceptance_rate = {wanted:g} cannot be met: only {possible:,} of {n:,} "
            f"draws ({best.acceptance_rate.value:.4g}) have P(x) > 0, which is the limit for "
            f"beta -> 0. {ADVICE}",
            best,
        )
    if possible < ENOUGH_ABOVE:
        return UnreachableError(
            f"{name} = {wanted:g} cannot be vouched for: only {possible} of {n:,} draws "
            f"have P(x) > 0. Draw more. {ADVICE}",
            certificate_at(evaluator, ratios.level(0)),
        )
    best = certificate_at(evaluator, ratios.level(max(ratios.reach(ENOUGH_ABOVE), 0)))
    part: Estimate = getattr(best, name)
    more = what_it_takes(name, wanted, evaluator.tail, best.log_z.value)
    advice = ADVICE
    if evaluator.tail.log_ceiling < math.inf:
        ceiling = _ceiling(evaluator)
        rate = certificate_at(evaluator, ceiling).acceptance_rate.value
        advice += (
            f" At beta = {level_text(ceiling)}, which no ratio exceeds, the samples are "
            f"exactly the target's, at an acceptance rate of {rate:.3g}: ask for {name} = 0."
        )
    return UnreachableError(
        f"{name} = {wanted:g} cannot be vouched for: it needs a beta above which fewer than "
        f"{ENOUGH_ABOVE} of {n:,} draws lie. The best these draws can vouch for is "
        f"{part.value:.3g} [{part.low:.3g}, {part.high:.3g}], at beta = "
        f"{level_text(best.log_beta)} and acceptance rate {best.acceptance_rate.value:.3g}. "
        f"{more or 'How many draws would show it cannot be said.'} {advice}",
        best,
    )
