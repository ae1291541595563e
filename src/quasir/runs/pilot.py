"""How many draws, hours and machines a wish needs, estimated from a run's pilot draws.

A standard error falls as 1/sqrt(N), so N = n (se_n/se)^2 draws are needed, where the pilot has n
draws. A promise needs as many draws as make the wealth of its bet large enough
(`quasir.certificates.forecast`). The uncertainty of N comes from the pilot too: its draws are cut
into parts, and what the parts give is compared. Doubts name what the pilot cannot know, such as a
tail it has not seen.
"""

from __future__ import annotations

import math

import numpy as np

from quasir.certificates.certificate import Certificate
from quasir.certificates.forecast import draws_for
from quasir.certificates.tradeoff import tradeoff
from quasir.draws.draws import Draws
from quasir.errors import InputError, QuasirError
from quasir.estimation.quantities import WISHES
from quasir.runs.plan import MOST_DRAWS, PARTS, Plan, Range, pilot_draws, planned
from quasir.store import Store

__all__ = ["SHARE", "plan_run"]

SHARE = 0.75
"""A promise is planned for this share of the acceptance rate that the wish truly costs."""


def plan_run(
    store: Store,
    wish: dict[str, float],
    se: float | None = None,
    of: str | None = None,
    share: float = SHARE,
    pilot: Draws | None = None,
) -> Plan:
    """Plan a run from the draws that a store holds: for a precision, or for a promise.

    Parameters
    ----------
    store : Store
        With some thousands of draws.
    wish : dict
        How beta is chosen, as `Curve.at` takes it.
    se : float, optional
        The standard error to reach; without one, the wish has a confidence, and the plan is for its
        promise.
    of : str, optional
        The estimate that should have this error; by default the one in the wish, or TVD.
    share : float
        For a promise: the acceptance rate to reach, as a share of that of the estimate.
    pilot : Draws, optional
        The draws to plan from, of one context of the store; by default, the store's first ones.

    Raises
    ------
    UnreachableError
        If the pilot cannot confirm the wish at any beta; the message says what would help.
    """
    if se is None:
        return _plan_promise(store, wish, share, pilot)
    if not 0 < se < math.inf:
        raise InputError(f"se is {se}, but must be a finite number above 0.")
    wish = {key: value for key, value in wish.items() if key != "confidence"}
    name = next(iter(wish))
    of = of or (name if name in WISHES else "tvd")
    made = len(store) if pilot is None else len(pilot)
    pilot = pilot_draws(store) if pilot is None else pilot
    certificate = tradeoff(pilot).at(**wish)
    now = certificate.estimate(of)
    if math.isnan(now.se):
        raise InputError(
            f"the pilot's {len(pilot):,} draws cannot tell how well {of} is known at that beta: "
            f"{certificate.doubts[0] if certificate.doubts else 'none lies above it.'}"
        )
    if now.se > se * math.sqrt(MOST_DRAWS / len(pilot)):
        raise InputError(
            f"se is {se:g}, and is {now.se:.3g} after {len(pilot):,} draws: more than "
            f"{MOST_DRAWS:.0e} draws would be needed. Ask for a larger one."
        )
    relative = _relative_error(pilot, certificate, of)
    wanted = Range.around(max(len(pilot) * (now.se / se) ** 2, 1.0), relative)
    return planned(store, certificate, of, wanted, relative, made=made, se=se)


def _plan_promise(store: Store, wish: dict[str, float], share: float, pilot: Draws | None) -> Plan:
    """Plan the draws until a wish is promised at a share of the acceptance rate it truly costs."""
    if "confidence" not in wish:
        raise InputError(
            "a plan is for a standard error (se, --se 0.005), or for a promise (a confidence "
            "beside tvd or kl, --tvd 0.1 --confidence 0.95): give one of them."
        )
    if not 0 < share < 1:
        raise InputError(f"share is {share:g}, but must lie between 0 and 1.")
    (name, wanted), confidence = next(iter(wish.items())), wish["confidence"]
    made = len(store) if pilot is None else len(pilot)
    pilot = pilot_draws(store) if pilot is None else pilot
    curve = tradeoff(pilot)
    curve.at(**wish)  # says so, if it cannot be promised at all
    estimated = curve.at(**{name: wanted})
    rate = share * estimated.acceptance_rate.value

    def needed(draws: Draws) -> float:
        evaluator = tradeoff(draws).evaluator
        return draws_for(evaluator, name, wanted, confidence, rate)

    draws = needed(pilot)
    if not draws < MOST_DRAWS:
        raise InputError(
            f"no number of draws promises {name} = {wanted:g} at {share:g} of the acceptance rate "
            f"{estimated.acceptance_rate.value:.3g}: ask for a smaller share."
        )
    parts = [needed(pilot.take(rows)) for rows in np.array_split(np.arange(len(pilot)), PARTS)]
    relative = float(np.std(parts, ddof=1) / np.mean(parts) / math.sqrt(PARTS))
    relative = relative if math.isfinite(relative) else math.inf
    wanted_draws = Range.around(draws, relative)
    return planned(store, estimated, name, wanted_draws, relative, made=made, share=share)


def _relative_error(pilot: Draws, certificate: Certificate, of: str) -> float:
    """Return the relative standard error of the variance per draw, from the pilot's parts."""
    if len(pilot) < 2 * PARTS:
        return math.inf
    variances = []
    for rows in np.array_split(np.arange(len(pilot)), PARTS):
        try:
            (part,) = tradeoff(pilot.take(rows), log_betas=[certificate.log_beta])
        except QuasirError:
            return math.inf
        variance = part.estimate(of).se ** 2 * len(rows)
        # A part with no draw above beta sees no variance there.
        variances.append(0.0 if math.isnan(variance) else variance)
    mean = float(np.mean(variances))
    return float(np.std(variances, ddof=1) / math.sqrt(PARTS) / mean) if mean else math.inf
