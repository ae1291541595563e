"""How many draws each context gets: equal shares first, then the cheapest needs are served.

All of it is determined by the draws, and so by the seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quasir.certificates.choice import choose_level
from quasir.certificates.curve import tradeoff
from quasir.draws.draws import Draws
from quasir.errors import InputError

PILOT = 4
"""A quarter of the draws is shared equally; half of the rest is given out next, then the rest."""
MARGIN = 1.1  # more draws than the estimated need, since the acceptance rate is an estimate
UNMET, NEVER = 4.0, 16.0
"""Draws that are guessed to be needed, as multiples of those there are: where the request is not
met yet, and where no draw was possible yet."""
MOST = 2.0
"""A context whose need is a guess, or more than there is, gets at most so many equal shares."""


@dataclass(frozen=True)
class Need:
    """The draws that a context is estimated to need in all, and whether its request is met."""

    draws: int
    met: bool
    guess: bool = False


def most_draws(budget: int, contexts: int) -> int:
    """Return the draws in all that a context gets which seems hopeless."""
    return math.ceil(MOST * budget / max(contexts, 1))


def shared_out(total: int, shares: int) -> list[int]:
    """Return a number in equal shares; the first ones get what remains."""
    each, more = divmod(total, shares)
    return [each + (i < more) for i in range(shares)]


def pilot(budget: int, open_: Sequence[bool]) -> list[int]:
    """Return the draws of each context in the first round: equal, a quarter of the budget."""
    wanted = sum(open_)
    if budget < wanted:
        raise InputError(
            f"{budget:,} draws are too few for {wanted:,} contexts: give at least one to each with "
            "--draws; some hundreds show what a context costs."
        )
    each = max(budget // (PILOT * wanted), 1)
    return [each if one else 0 for one in open_]


def need_of(draws: Draws, request: dict[str, float], samples: int) -> Need:
    """Return what a context needs to meet the request and to have so many accepted draws."""
    n = len(draws)
    evaluator = tradeoff(draws).evaluator
    if not evaluator.n_possible:
        return Need(math.ceil(NEVER * n), met=False, guess=True)
    ((name, wanted),) = ((k, v) for k, v in request.items() if k != "confidence")
    level = choose_level(evaluator, name, wanted, request.get("confidence"))
    if level is None:
        return Need(math.ceil(UNMET * n), met=False, guess=True)
    rate = float(evaluator.values("acceptance_rate", np.array([level]))[0])
    needed = math.ceil(min(MARGIN * samples / max(rate, 1e-12), 1e15))
    return Need(max(needed, n), met=needed <= n)


def allocated(counts: Sequence[int], needs: Sequence[Need | None], budget: int) -> list[int] | None:
    """Return the draws of each context in all after the next round, or None at the budget's end."""
    left = budget - sum(counts)
    if left <= 0:
        return None
    # The last round gives out all that is left, the one before it half.
    last = sum(counts) * 2 >= budget or left < 2 * len(counts)
    left = left if last else math.ceil(left / 2)
    totals = list(counts)
    known = {i: need for i, need in enumerate(needs) if need is not None}
    most = most_draws(budget, len(known))
    hopeless = set()
    for i, need in sorted(known.items(), key=lambda pair: (pair[1].draws - counts[pair[0]], pair)):
        more = max(need.draws - counts[i], 0)
        if need.met:
            continue
        if need.guess or more > left:
            hopeless.add(i)
            more = min(more, max(most - counts[i], 0))
        more = min(more, left)
        totals[i] += more
        left -= more
    # The needs are estimates, and so are those that look met: what is left goes to all others.
    while left:
        open_ = [i for i in known if i not in hopeless or totals[i] < most]
        for i, more in zip(open_, shared_out(left, len(open_)), strict=True):
            more = min(more, most - totals[i]) if i in hopeless else more
            totals[i] += more
            left -= more
    return totals
