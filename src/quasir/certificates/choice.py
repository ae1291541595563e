"""The choice of beta by a request: by an estimate, or by a guarantee that holds for the choice."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from quasir.certificates.certificate import Certificate, Choice
from quasir.certificates.evaluator import FAR_BELOW, Evaluator
from quasir.core.arguments import as_log_beta, as_rate, number
from quasir.core.formatting import level_text, rounded_up, short_repr
from quasir.core.types import Array
from quasir.errors import InputError, UnreachableError
from quasir.estimation.binned_ratios import Ratios
from quasir.estimation.estimate import Estimate
from quasir.estimation.formulas import accepted_draws, ceiling_bound
from quasir.estimation.guarantee import guaranteed_level
from quasir.estimation.intervals import Tail
from quasir.estimation.quantities import GUARANTEED, OPTIONS, QUANTITIES

ENOUGH_ABOVE = 10
"""A level is within reach of the draws if at least this many ratios are at or above it."""
AT_ONCE = 32  # levels between two ratios that are tried at once
COST_LEVELS, COST_ROUNDS = 16, 4
"""Levels between two ends, and how often the search for a cost is repeated closer to it."""
PAST = 12.0  # nats past the largest ratio that are searched for a cost, if no ceiling is known
MOST_DRAWS = 1e15  # more draws than this are not worth naming
FIXED_IN_ADVANCE = "The draws chose this beta, but this bound assumes that it was fixed in advance."
ADVICE = "Use a proposal closer to the target, or relax the request."


def check_option(name: str, value: Any) -> float:
    """Return the number that beta is to be chosen by; refuse one that no draws could meet."""
    if name in ("beta", "log_beta"):
        as_log_beta(**{name: value})
        return float(value)
    if name == "acceptance_rate":
        return as_rate(value)
    wanted, option = number(name, value), OPTIONS[name]
    if not option.low <= wanted <= option.high:
        raise InputError(
            f"{name} is {short_repr(value)}, but must be from {option.low:g} to {option.high:g}."
        )
    return wanted


def choose(
    evaluator: Evaluator, name: str, wanted: float, confidence: float | None = None
) -> Certificate:
    """Return the certificate at the cheapest beta that meets a request, guaranteed or estimated."""
    sure = 0.95 if confidence is None else confidence
    guaranteed = confidence is not None and name != "acceptance_rate"
    if guaranteed and name not in GUARANTEED:
        raise InputError(
            f"{name} cannot be guaranteed: with confidence, give one of {', '.join(GUARANTEED)}."
        )
    level = choose_level(evaluator, name, wanted, confidence)
    if level is None and guaranteed:
        raise _not_guaranteed(evaluator, name, wanted, sure)
    if level is None:
        raise _unreachable(evaluator, name, wanted)
    if level == _exact_level(evaluator) and wanted == 0 and not guaranteed:
        return certificate_at(evaluator, level, sure)  # the ceiling, which no draw chose
    return certificate_at(evaluator, level, sure, Choice(name, wanted, guaranteed))


def choose_level(
    evaluator: Evaluator, name: str, wanted: float, confidence: float | None = None
) -> float | None:
    """Return the log beta that a request chooses, or None if it cannot be met."""
    ratios = evaluator.ratios
    if name not in QUANTITIES:
        return as_log_beta(**{name: wanted})
    if name == "acceptance_rate":
        return largest_accepting(ratios, wanted)
    if confidence is not None:
        binned, assumptions = evaluator.binned, evaluator.assumptions(confidence)
        found = guaranteed_level(binned, name, wanted, assumptions, confidence=confidence)
        if found is None:
            return None
        level, exact = max(found, ratios.level(0) - FAR_BELOW), _exact_level(evaluator)
        if exact < math.inf:
            rates = evaluator.values("acceptance_rate", np.array([level, exact]))
            if rates[1] >= rates[0] * (1 - 1e-9):
                return exact  # every ratio that was seen is at the ceiling: it costs nothing
        return level
    if wanted == 0 and evaluator.tail.log_ceiling < math.inf:
        return _exact_level(evaluator)
    return smallest_meeting(ratios, lambda b: evaluator.values(name, b), wanted)


def _exact_level(evaluator: Evaluator) -> float:
    """Return the lowest level that no ratio exceeds; infinite if no ceiling is known."""
    return float(evaluator.ratios.snap(np.array([evaluator.tail.log_ceiling]), np.ceil)[0])


def largest_accepting(ratios: Ratios, rate: float) -> float | None:
    """Return the largest log beta with an acceptance rate of at least `rate`, or None."""
    # Between two neighbouring ratios only beta varies: beta = sum over L of w/(N rate - |H|).
    n, size = ratios.n, ratios.n_possible
    if size == 0 or size < rate * n * (1 - 1e-12):
        return None

    def accepts(i: int) -> bool:
        level = np.array([ratios.level(i)])
        return bool(accepted_draws(ratios.at(level), level)[0] >= rate * n)

    first, last = -1, ratios.n_levels  # accepts(first), not accepts(last)
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (middle, last) if accepts(middle) else (first, middle)
    if first < 0:
        lowest = ratios.level(0)
        whole = ratios.exact_between or ratios.at(np.array([lowest])).n_high[0] == size
        return lowest if whole else None
    level = ratios.level(first)
    s = ratios.at(np.array([level]))
    room = rate * n - float(s.n_high[0])
    past_all = last == ratios.n_levels
    if room <= 0 or not (ratios.exact_between or past_all):
        return level
    solved = float(s.log_unit[0] + np.log(s.low[0, 0]) - np.log(room))
    found = min(max(solved, level), np.inf if past_all else ratios.level(last))
    return float(ratios.snap(np.array([found]), np.floor)[0])


def smallest_meeting(
    ratios: Ratios, estimated: Callable[[Array], Array], wanted: float
) -> float | None:
    """Return the smallest log beta, up to the `ENOUGH_ABOVE`-th largest ratio, that is enough."""

    def meets(log_beta: float) -> bool:
        return bool(estimated(np.array([log_beta]))[0] <= wanted)

    first, last = -1, ratios.reach(ENOUGH_ABOVE)
    if last < 0 or not meets(ratios.level(last)):
        return None
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (first, middle) if meets(ratios.level(middle)) else (middle, last)
    high = ratios.level(last)
    if first < 0 or not ratios.exact_between:
        return high
    low = ratios.level(first)
    while True:
        # Many levels at once cost little more than one.
        between = np.linspace(low, high, AT_ONCE + 2)[1:-1]
        between = between[(between > low) & (between < high)]
        if not len(between):
            return high
        met = np.append(np.flatnonzero(estimated(between) <= wanted), len(between))[0]
        if met > 0:
            low = float(between[met - 1])
        if met < len(between):
            high = float(between[met])


def certificate_at(
    evaluator: Evaluator, log_beta: float, confidence: float = 0.95, choice: Choice | None = None
) -> Certificate:
    """Return the certificate at the level nearest to log_beta."""
    # If a level is guaranteed, so are larger ones.
    to = np.ceil if choice is not None and choice.guaranteed else np.rint
    level = evaluator.ratios.snap(np.array([log_beta]), to)
    guarantee = evaluator.guarantees(level, confidence)[0]
    points = evaluator.points(level)
    if choice is None:
        return evaluator.certificate(points, guarantee=guarantee)
    name, wanted = choice.name, choice.wanted
    if choice.guaranteed:
        # The proof is for `wanted`, not for a smaller bound that these draws have at the level.
        sure = ceiling_bound(name, evaluator.assumptions(confidence).log_ceiling - level)
        bound: dict[str, Any] = {name: min(wanted, float(sure[0]))}
        basis = (
            f"{guarantee.basis} The choice of beta is covered for {name}; every other bound here "
            "is for a beta that was fixed in advance."
        )
        guarantee = replace(guarantee, **bound, basis=basis)
        return replace(evaluator.certificate(points, guarantee=guarantee), choice=choice)
    cover = "" if name in GUARANTEED else f" with {' or '.join(GUARANTEED)}"
    said = f"{FIXED_IN_ADVANCE} Pass `confidence`{cover} to cover the choice."
    guarantee = replace(guarantee, basis=f"{guarantee.basis} {said}")
    by_distance = name != "acceptance_rate"
    made = evaluator.certificate(points, guarantee=guarantee, chosen=by_distance)
    if by_distance:
        cost = find_cost(evaluator, name, wanted, made.acceptance_rate.value)
        made = replace(made, cost=(f"{name} = {wanted:g}", cost))
    return replace(made, choice=choice)


def _not_guaranteed(
    evaluator: Evaluator, name: str, wanted: float, confidence: float
) -> UnreachableError:
    assumptions = evaluator.assumptions(confidence)
    top = certificate_at(evaluator, evaluator.ratios.log_max, confidence)
    best = None if top.guarantee is None else getattr(top.guarantee, name)
    if best is None:
        why = (
            assumptions.basis if assumptions.log_z is None else "KL needs a ceiling of the ratios."
        )
        said = f"{why} Without a confidence, the estimate decides"
    else:
        said = (
            f"the best is {rounded_up(best):.3g}, at beta = {level_text(top.log_beta)} and "
            f"acceptance rate {top.acceptance_rate.value:.3g}. {assumptions.basis} Draw more"
        )
    return UnreachableError(
        f"{name} = {wanted:g} cannot be guaranteed at confidence {confidence:g}: {said}.", top
    )


def _unreachable(evaluator: Evaluator, name: str, wanted: float) -> UnreachableError:
    ratios, n, possible = evaluator.ratios, evaluator.n, evaluator.n_possible
    advice = ADVICE
    if name == "acceptance_rate" and possible >= wanted * n:
        best = certificate_at(evaluator, ratios.level(0))
        why = (
            f"the lowest beta of a streamed curve, {level_text(best.log_beta)}, accepts "
            f"{best.acceptance_rate.value:.4g}. Load the draws (no --stream)."
        )
    elif name == "acceptance_rate" or possible < ENOUGH_ABOVE:
        best = evaluator.limit(everything=False)
        share = best.acceptance_rate.value
        why = f"only {possible:,} of {n:,} draws ({share:.4g}) have P(x) > 0. Draw more."
    else:
        best = certificate_at(evaluator, ratios.level(max(ratios.reach(ENOUGH_ABOVE), 0)))
        part: Estimate = getattr(best, name)
        more = _draws_advice(name, wanted, evaluator.tail, best.log_z.value)
        why = (
            f"it needs a beta above which fewer than {ENOUGH_ABOVE} of {n:,} draws lie. The best "
            f"these draws can vouch for is {part.value:.3g} [{part.low:.3g}, {part.high:.3g}], at "
            f"beta = {level_text(best.log_beta)} and acceptance rate "
            f"{best.acceptance_rate.value:.3g}. {more or 'More draws may show it.'}"
        )
        if evaluator.tail.log_ceiling < math.inf:
            ceiling = _exact_level(evaluator)
            rate = certificate_at(evaluator, ceiling).acceptance_rate.value
            advice += (
                f" At beta = {level_text(ceiling)}, which no ratio exceeds, the samples are "
                f"exactly the target's, at an acceptance rate of {rate:.3g}: ask for {name} = 0."
            )
    return UnreachableError(f"{name} = {wanted:g} cannot be met: {why} {advice}", best)


def _draws_advice(name: str, wanted: float, tail: Tail, log_z: float) -> str | None:
    """Return in words how many draws the request needs by the fitted tail, or None if unknown."""
    if not tail.fitted or tail.k >= 1:
        return None
    which = QUANTITIES[name].beyond
    assert which is not None
    reach = tail.log_max + np.linspace(0.0, 25.0, 2501)
    beyond = [tail.above(log_beta) for log_beta in reach.tolist()]
    left = np.array([getattr(part, which) for part in beyond]) * math.exp(tail.log_max - log_z)
    share = np.array([part.share for part in beyond])
    meets = np.flatnonzero((left <= wanted) & (share > 0))
    if not len(meets):
        return None
    draws = max(ENOUGH_ABOVE / share[meets[0]], 2 * tail.n)
    rate = math.exp(min(log_z - reach[meets[0]], 0.0))
    return (
        f"By the tail fitted to the largest ratios (Pareto k = {tail.k:.2f}), about {draws:.1e} "
        f"draws would show it, at an acceptance rate near {rate:.1e}."
    )


def find_cost(evaluator: Evaluator, name: str, wanted: float, value: float) -> Estimate:
    """Return the acceptance rate at the beta that truly meets a request; `value` estimates it."""
    # beta may be the right one where the interval of the distance contains the request; the ends
    # are those of the rate's intervals at the smallest and the largest of these betas.
    ratios, ceiling = evaluator.ratios, evaluator.tail.log_ceiling
    top = ceiling if ceiling < math.inf else ratios.log_max + PAST
    ends = np.array([ratios.level(0), top])
    for _ in range(COST_ROUNDS):
        parts = [np.linspace(*pair, COST_LEVELS) for pair in pairwise(np.unique(ends))]
        levels = np.unique(ratios.snap(np.concatenate([ends, *parts])))
        points = evaluator.points(levels)
        distance, rate = points.estimates[name], points.estimates["acceptance_rate"]
        within = np.flatnonzero(distance.low <= wanted)
        above = np.flatnonzero(distance.high >= wanted)
        # One level further at each side: between two levels nothing is known yet.
        first = max(int(within[0]) - 1, 0) if len(within) else len(levels) - 1
        last = min(int(above[-1]) + 1, len(levels) - 1) if len(above) else 0
        around = [first, min(first + 1, len(levels) - 1), max(last - 1, 0), last]
        ends = levels[around]
    # At the last level nothing shows that the request is met, unless it is the ceiling.
    unmet = levels[last] >= top and not distance.high[last] <= wanted
    low = 0.0 if unmet else float(rate.low[last])
    return Estimate(value, math.nan, min(low, value), max(float(rate.high[first]), value))


def guaranteed_rate(
    evaluator: Evaluator, name: str, wanted: float, confidence: float, draws: float
) -> float:
    """Return the acceptance rate at the beta that this many draws would guarantee; 0 for none."""
    # The log of a wealth is a sum over the draws: N like these n have about N/n of its growth.
    binned, assumptions = evaluator.binned, evaluator.assumptions(confidence)
    more = binned.scaled(draws / evaluator.n)
    level = guaranteed_level(more, name, wanted, assumptions, confidence=confidence)
    if level is None:
        return 0.0
    level = max(level, evaluator.ratios.level(0))
    return float(evaluator.values("acceptance_rate", np.array([level]))[0])


def draws_for(
    evaluator: Evaluator, name: str, wanted: float, confidence: float, rate: float
) -> float:
    """Return how many draws guarantee the request at this acceptance rate; infinite if none do."""

    def enough(log_draws: float) -> bool:
        draws = math.exp(log_draws)
        return guaranteed_rate(evaluator, name, wanted, confidence, draws) >= rate

    low, high = 0.0, math.log(MOST_DRAWS)
    if not enough(high):
        return math.inf
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return math.exp(high)
