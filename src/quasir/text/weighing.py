"""The weights of a proposal's components: those at which an accepted sample takes the least work.

Fresh draws, which taught nothing, are scored under every component: so the ratios of all mixtures
are known from one set of draws. A mixture is judged by what it would cost at the TVD that is asked
for, as far as the draws of the run would guarantee it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from quasir.certificates.choice import choose_level, guaranteed_rate
from quasir.certificates.evaluator import SortedDraws
from quasir.core.types import Array
from quasir.draws.ceiling import RatioBounds
from quasir.draws.draws import Draws
from quasir.text.found import Candidate

SHARE = 0.3  # of the base, where one component is tried beside it
STEPS = (0.2, 0.1, 0.05, 0.02)  # by which weights are moved from component to component
WORTH = 0.998  # part of the cost that is left if a step is worth it


class Request(NamedTuple):
    """What samples will be asked for."""

    tvd: float
    confidence: float | None
    draws: int  # of the run


@dataclass(frozen=True, eq=False)
class Scored:
    """Fresh draws, and their log-probabilities under all components, of which the base is first."""

    n: int
    log_p: Array  # of those that the target allows
    log_q: Array  # of the mixture that drew them
    log_each: Array  # (components, draws)
    log_most: Array  # of each context: the log of the largest b(x), over Z
    floors: Array  # (contexts, components): each component is at least this part of the base
    work: Array  # of each component, in draws of the base; that of the base itself is always there
    seconds: float  # of a draw of the base

    def half(self, number: int) -> Scored:
        """Return every other draw."""
        at = slice(number, None, 2)
        log_p, log_q, log_each = self.log_p[at], self.log_q[at], self.log_each[:, at]
        return replace(self, n=self.n // 2, log_p=log_p, log_q=log_q, log_each=log_each)

    def judge(self, name: str, names: Sequence[str], weights: Array, request: Request) -> Candidate:
        """Return what a mixture would cost."""
        with np.errstate(divide="ignore"):
            own = np.logaddexp.reduce(np.log(weights)[:, None] + self.log_each, axis=0)
            share = self.floors @ weights  # of the base, in each context, as far as it is known
            ceiling = float(np.max(self.log_most - np.log(share)))
        # Draws of another mixture stand for those of this one; the others have P(x) = 0.
        expected = np.cumsum(np.exp(own - self.log_q))
        times = np.diff(np.floor(expected + 0.5), prepend=0.0).astype(int)
        log_ratio = np.repeat(self.log_p - own, times)[: self.n]
        # Without the base, texts with huge ratios may be there that no draw shows.
        rate = find_rate(log_ratio, self.n, ceiling, request) if share.min() > 0 else 0.0
        seconds = self.seconds * float(self.work[0] + self.work[1:][weights[1:] > 0].sum())
        used = {n: w for n, w in zip(names, weights.tolist(), strict=True) if w > 0}
        return Candidate(name, used, rate, seconds, seconds / rate if rate else math.inf)


def find_rate(log_ratio: Array, n: int, log_ceiling: float, request: Request) -> float:
    """Return the acceptance rate at a request, by the ratios of those of n draws with P(x) > 0."""
    if not len(log_ratio):
        return 0.0
    log_p, nothing = np.full(n, -np.inf), np.zeros(n)
    log_p[: len(log_ratio)] = log_ratio
    known = RatioBounds(log_ceiling=log_ceiling)
    evaluator = SortedDraws(Draws(log_p=log_p, log_q=nothing, log_u=nothing, known=known))
    tvd, confidence, draws = request
    bounded = log_ceiling < math.inf
    exact = _rate_at(evaluator, log_ceiling) if bounded else 0.0
    if confidence is not None and bounded:
        return max(guaranteed_rate(evaluator, "tvd", tvd, confidence, draws), exact)
    level = choose_level(evaluator, "tvd", tvd)
    return exact if level is None else _rate_at(evaluator, level)


def _rate_at(evaluator: SortedDraws, log_beta: float) -> float:
    return float(evaluator.values("acceptance_rate", np.array([log_beta]))[0])


def choose_weights(scored: Scored, names: Sequence[str], request: Request) -> list[Candidate]:
    """Return what was tried: the base, each component beside it, and the cheapest mixture."""
    alone = np.eye(len(names))
    tried = [scored.judge("base", names, alone[0], request)]
    for name, one in zip(names[1:], alone[1:], strict=True):
        both = SHARE * alone[0] + (1 - SHARE) * one
        tried.append(scored.judge(f"base and {name}", names, both, request))
    if len(names) > 1:
        start = min(tried, key=cost)
        tried.append(_improve(scored, names, request, start))
    return tried


def check_choice(scored: Scored, names: Sequence[str], request: Request) -> list[float]:
    """Return the acceptance rate on each half of the draws of what the other half chooses."""
    found = []
    for own, other in ((0, 1), (1, 0)):
        best = min(choose_weights(scored.half(other), names, request), key=cost)
        weights = np.array([best.weights.get(name, 0.0) for name in names])
        found.append(scored.half(own).judge("", names, weights, request).acceptance)
    return found


def cost(tried: Candidate) -> float:
    """Return what candidates are compared by."""
    return tried.seconds_per_sample


def _improve(scored: Scored, names: Sequence[str], request: Request, start: Candidate) -> Candidate:
    """Return the cheapest weights, moved from component to component by ever smaller steps."""
    weights = np.array([start.weights.get(name, 0.0) for name in names])
    best = scored.judge("mixture", names, weights, request)
    for step in STEPS:
        going = True
        while going:
            going = False
            for source, into in np.argwhere(~np.eye(len(names), dtype=bool)):
                by = min(step, weights[source])
                if by == 0.0:
                    continue
                moved = weights.copy()
                moved[source], moved[into] = moved[source] - by, moved[into] + by
                other = scored.judge("mixture", names, moved, request)
                if other.seconds_per_sample < WORTH * best.seconds_per_sample:
                    best, weights, going = other, moved, True
    return best
