"""How many draws each context gets: first all the same, then where they meet the wish in most.

What a context still needs is estimated from its draws so far. The cheapest needs are served first,
which meets the most of them. All of it is determined by the draws, and so by the seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quasir.certificates.evaluator import Evaluator
from quasir.certificates.search import largest_accepting, smallest_meeting
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.estimation.columns import basis_of
from quasir.estimation.promise import promised_level

__all__ = ["Need", "allocated", "need_of", "pilot", "shared_out"]

PILOT = 4
"""A quarter of the draws is shared equally; half of the rest is given out next, then the rest."""
MARGIN = 1.1
"""More draws than the estimated need, since the acceptance rate is an estimate."""
UNMET, NEVER = 4.0, 16.0
"""Draws that are guessed to be needed, as multiples of those there are: where the wish is not met
yet, and where no draw was possible yet."""


@dataclass(frozen=True)
class Need:
    """The draws that a context is estimated to need in all, and whether its wish is met."""

    draws: int
    met: bool


def shared_out(total: int, shares: int) -> list[int]:
    """Return a number in equal shares; the first ones get what remains.

    Examples
    --------
    >>> shared_out(7, 3)
    [3, 2, 2]
    """
    each, more = divmod(total, shares)
    return [each + (i < more) for i in range(shares)]


def pilot(budget: int, open_: Sequence[bool]) -> list[int]:
    """Return the draws of each context in the first round: equal, a quarter of the budget.

    Raises
    ------
    InputError
        If there are fewer draws than contexts.
    """
    wanted = sum(open_)
    if budget < wanted:
        raise InputError(
            f"{budget:,} draws are too few for {wanted:,} contexts: give at least one to each with "
            "--draws; some hundreds show what a context costs."
        )
    each = max(budget // (PILOT * wanted), 1)
    return [each if one else 0 for one in open_]


def need_of(draws: Draws, wish: dict[str, float], samples: int) -> Need:
    """Return what a context needs to meet the wish and to have so many accepted draws."""
    n = len(draws)
    evaluator = Evaluator(basis_of(draws))
    if not evaluator.n_possible:
        return Need(math.ceil(NEVER * n), met=False)
    level = _level(evaluator, dict(wish))
    if level is None:
        return Need(math.ceil(UNMET * n), met=False)
    rate = float(evaluator.values("acceptance_rate", np.array([level]))[0])
    needed = math.ceil(min(MARGIN * samples / max(rate, 1e-12), 1e15))
    return Need(max(needed, n), met=needed <= n)


def _level(evaluator: Evaluator, wish: dict[str, float]) -> float | None:
    """Return the log beta that the wish chooses, or None if it cannot be met yet."""
    confidence = wish.pop("confidence", None)
    name, wanted = next(iter(wish.items()))
    ratios = evaluator.ratios
    if name == "beta":
        return math.log(wanted)
    if name == "log_beta":
        return wanted
    if name == "acceptance_rate":
        return largest_accepting(ratios, wanted)
    if confidence is not None:
        ground = evaluator.ground(confidence)
        return promised_level(evaluator.spread, name, wanted, ground, confidence=confidence)
    if wanted == 0:
        ceiling = evaluator.tail.log_ceiling
        return ceiling if ceiling < math.inf else None
    return smallest_meeting(ratios, lambda b: evaluator.values(name, b), wanted)


def allocated(counts: Sequence[int], needs: Sequence[Need | None], budget: int) -> list[int] | None:
    """Return the draws of each context in all after the next round, or None at the budget's end.

    Parameters
    ----------
    counts : sequence of int
        Draws of each context so far.
    needs : sequence of Need or None
        None for a context of which nothing is drawn.
    budget : int
        Draws in all, of all contexts together.

    Examples
    --------
    >>> allocated([10, 10, 10], [Need(10, True), Need(15, False), Need(400, False)], 50)
    [10, 15, 25]
    """
    left = budget - sum(counts)
    if left <= 0:
        return None
    # The last round gives out all that is left, the one before it half.
    last = sum(counts) * 2 >= budget or left < 2 * len(counts)
    left = left if last else math.ceil(left / 2)
    totals = list(counts)
    wanting = [i for i, need in enumerate(needs) if need is not None and not need.met]
    for i in sorted(wanting, key=lambda i: (_need(needs[i]) - counts[i], i)):
        more = min(max(_need(needs[i]) - counts[i], 0), left)
        totals[i] += more
        left -= more
    # The needs are estimates, and so are those that look met: what is left goes to all.
    open_ = [i for i, need in enumerate(needs) if need is not None]
    for i, more in zip(open_, shared_out(left, len(open_)), strict=True):
        totals[i] += more
    return totals


def _need(need: Need | None) -> int:
    assert need is not None
    return need.draws
