"""The pilot of a guide's fit: a few rounds of draws, each from what the earlier ones gave."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import check_count
from quasir.core.items import take
from quasir.core.progress import Progress
from quasir.core.streams import Purpose, derived_seed, root_seed
from quasir.core.types import Array, Seed, Target
from quasir.draws.draw import draw
from quasir.draws.draws import Draws
from quasir.errors import InputError, TuningError
from quasir.guides.boost import LARGEST, Boost
from quasir.guides.boost_machine import BoostMachine
from quasir.guides.product import Both, BothMachine
from quasir.targets.product import Product
from quasir.text.guide_fit import RARE, PilotRound, fitted
from quasir.text.guide_masses import Masses
from quasir.text.tokenizers import as_texts

if TYPE_CHECKING:
    from quasir.text.guided import Guided

__all__ = ["piloted"]

ROUNDS = (0.15, 0.15, 0.2, 0.5)
"""Parts of the pilot. The first ones may be far from the best factors."""
START = 10.0
"""Factor of the first round where none is given."""
FEW = 20
"""With fewer possible draws in a round, its factors are raised instead of fitted."""


def piloted(q: Guided, target: Target, n: int, seed: Seed, progress: Progress) -> Guided:
    """Return q with fitted factors; see `Guided.fit`."""
    check_count("n", n, least=64)
    boosts = [part for part in q.guide.parts if isinstance(part, Boost)]
    if not boosts:
        raise InputError(f"{q.guide!r} has no factors to fit: fit is for boosts.")
    if not isinstance(target, Product) or target.base is not q.base:
        raise InputError(
            f"the target must be made of this very base, as base * feature, not {target!r}: the "
            "fit needs log a and log q of one pass."
        )
    begun = replace(boosts[0], factors=tuple(c or START for c in boosts[0].factors))
    machine = BoostMachine(begun, q.vocabulary, watched=True)
    root, share, log_factors = root_seed(seed), q.share, machine.log_factors
    rounds: list[PilotRound] = []
    sizes = np.diff(np.rint(np.cumsum([0.0, *ROUNDS]) * n)).astype(int)
    for number, size in enumerate(sizes.tolist()):
        tried = np.minimum(log_factors, np.log(LARGEST))
        tried = np.where(_goes_on(machine), np.maximum(tried, np.log(RARE)), tried)
        now = _with_factors(q, machine, tried, share)
        streams = derived_seed(root, Purpose.GUIDE, number)
        draws = draw(target, now, size, streams, progress=progress)
        rounds.append(_round(now, machine, draws, tried))
        found = sum(len(r.log_b) for r in rounds)
        if found < FEW and number + 1 < len(sizes):
            log_factors = log_factors + np.log(START) * _not_given(boosts[0], machine)
            continue
        if found == 0:
            raise TuningError(
                f"none of the pilot's {n:,} draws is possible under the target, so no factor can "
                "be fitted. Give a larger n, or factors to begin with: boost({'word': 100.0})."
            )
        fit = fitted(rounds, machine, None if q.share else 0.0)
        log_factors, share = fit.log_factors, fit.share
    return _with_factors(q, machine, log_factors, share)


def _not_given(boost: Boost, machine: BoostMachine) -> NDArray[np.bool_]:
    """Return which factors the boost leaves to the fit; all of them if it leaves none."""
    groups = [int(name.split(" ", 1)[0]) for name in machine.names]
    left = np.array([boost.factors[group] is None for group in groups])
    return left if left.any() else ~left


def _goes_on(machine: BoostMachine) -> NDArray[np.bool_]:
    """Return which tokens go on with a rare spelling: the pilot tries them in every round."""
    return np.array([name.split(" ", 3)[1:3] == ["rare", "go-on"] for name in machine.names])


def _with_factors(q: Guided, machine: BoostMachine, log_factors: Array, share: float) -> Guided:
    """Return q with other factors and another share."""
    named = dict(zip(machine.names, np.exp(log_factors).tolist(), strict=True))
    parts = [
        part.with_factors(named) if isinstance(part, Boost) else part for part in q.guide.parts
    ]
    return type(q)(q.base, Both.of(parts), share)


def _round(now: Guided, machine: BoostMachine, draws: Draws, log_factors: Array) -> PilotRound:
    """Return what the fit needs of a round's draws: those that the target allows, in one pass."""
    assert draws.log_base is not None
    possible = np.flatnonzero(draws.log_p > -np.inf)
    texts = as_texts(take(draws.items, possible), now.tokenizer)
    others = [part for part in now.guide.parts if not isinstance(part, Boost)]
    rest = BothMachine([part.compiled(now.vocabulary) for part in others])
    masses = Masses.of(now.base, texts, rest, all(part.below_one for part in others), machine)
    log_b = (draws.log_p - draws.log_base)[possible]
    return PilotRound(len(draws), log_b, masses, log_factors, now.share)
